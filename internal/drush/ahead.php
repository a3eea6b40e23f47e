/* Which updates has this database had that this code does not know? Only what is certain is named. */
$handler = \Drupal::moduleHandler();
$modules = array_keys($handler->getModuleList());
foreach ($modules as $module) {
  $handler->loadInclude($module, 'install');
  $handler->loadInclude($module, 'php', $module . '.post_update');
}
$newest = [];
foreach (get_defined_functions()['user'] as $function) {
  if (preg_match('/^(.+)_update_(\d+)$/', $function, $found)) {
    $newest[$found[1]] = max($newest[$found[1]] ?? 0, (int) $found[2]);
  }
}
$ahead = [];
foreach (\Drupal::keyValue('system.schema')->getAll() as $module => $version) {
  /* A module without any update function may have dropped them all: that proves nothing. */
  if (!in_array($module, $modules, TRUE) || !isset($newest[$module])) {
    continue;
  }
  $removed = $module . '_update_last_removed';
  if ((int) $version > max($newest[$module], function_exists($removed) ? (int) $removed() : 0)) {
    $ahead[] = $module . '_update_' . (int) $version;
  }
}
foreach (\Drupal::keyValue('post_update')->get('existing_updates', []) as $update) {
  /* Only core is known to declare each post update that it drops. */
  if (!preg_match('/^(.+?)_post_update_/', $update, $found) || !in_array($found[1], $modules, TRUE) || function_exists($update)) {
    continue;
  }
  $removed = $found[1] . '_removed_post_updates';
  if (strpos($handler->getModule($found[1])->getPath(), 'core/') === 0 && !(function_exists($removed) && isset($removed()[$update]))) {
    $ahead[] = $update;
  }
}
print json_encode(['drupdate_ahead' => $ahead]) . "\n";

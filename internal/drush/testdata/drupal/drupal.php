<?php

/**
 * As much of Drupal as the question about updates asks: modules, their include files, and two collections.
 */
class Drupal {

  public static array $schema = [];

  public static array $posts = [];

  public static function moduleHandler(): Modules {
    return new Modules();
  }

  public static function keyValue(string $collection): Collection {
    return new Collection($collection === 'system.schema' ? self::$schema : ['existing_updates' => self::$posts]);
  }

}

class Collection {

  public function __construct(private array $values) {}

  public function getAll(): array {
    return $this->values;
  }

  public function get(string $key, mixed $default = NULL): mixed {
    return $this->values[$key] ?? $default;
  }

}

class Modules {

  private const PATHS = [
    'core_mod' => 'core/modules/core_mod',
    'removing' => 'core/modules/removing',
    'bare' => 'modules/contrib/bare',
    'contrib' => 'modules/contrib/contrib',
  ];

  public function getModuleList(): array {
    return self::PATHS;
  }

  public function getModule(string $name): Module {
    return new Module(self::PATHS[$name]);
  }

  public function loadInclude(string $module, string $type, ?string $name = NULL): void {
    $file = __DIR__ . '/' . ($name ?? $module) . '.' . $type;
    if (is_file($file)) {
      require_once $file;
    }
  }

}

class Module {

  public function __construct(private string $path) {}

  public function getPath(): string {
    return $this->path;
  }

}

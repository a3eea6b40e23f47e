<?php

function core_mod_removed_post_updates() {
  return ['core_mod_post_update_old' => '10.0.0'];
}

function core_mod_post_update_kept() {}

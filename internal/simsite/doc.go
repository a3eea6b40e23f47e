// Package simsite plays a Drupal site, its Drush and its database server with one small program, so that the
// whole of drupdate can be tested without PHP. Its answers are compared with recorded calls of the real tools.
package simsite

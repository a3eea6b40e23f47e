// Package drush builds Drush command lines and judges Drush's answers.
//
// The package is pure: it starts nothing, reads nothing and writes nothing. Every question has an answer for "it
// could not be told", because an exit code of 0 proves nothing and one of 1 disproves nothing. Drush 11.5 to 13 are
// understood; the list form of Drush 8 is accepted where it is met.
package drush

package update

import "strconv"

// Count says how many there are of a thing, for a person: "1 database update", "3 database updates".
func Count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return strconv.Itoa(n) + " " + thing
}

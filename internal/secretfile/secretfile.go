// Package secretfile reads secrets that are given as files, such as a mounted Secret. They may be exchanged while a process runs, so
// whoever uses one reads it anew each time.
package secretfile

import (
	"fmt"
	"os"
	"strings"
)

// Read returns what the file holds, without the blanks around it. An empty file is an error. No error tells the secret.
func Read(path string) (string, error) {
	raw, err := os.ReadFile(path) //nolint:gosec // named by whoever starts the process
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(string(raw))
	if secret == "" {
		return "", fmt.Errorf("%q: the file is empty", path)
	}
	return secret, nil
}

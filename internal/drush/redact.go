package drush

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

const redacted = "[redacted]"

var secretShapes = []struct {
	pattern *regexp.Regexp
	with    string
}{
	// "db-password": "…"
	{regexp.MustCompile(`(?i)("[^"\s]*(?:passw|passwd|secret|token)[^"\s]*"\s*:\s*)"(?:\\.|[^"\\])*"`), `${1}"` + redacted + `"`},
	// mysql://user:pw@host
	{regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://[^\s:/@'"]*):[^\s@'"]+@`), `${1}:` + redacted + `@`},
	// PDO->__construct('mysql:host=db', 'user', 'pw', Array), as PHP prints the arguments of calls
	{regexp.MustCompile(`(?i)(\b(?:pdo\w*(?:->|::)\w+|mysqli\w*(?:->|::)\w+|mysqli_(?:real_)?connect|pg_p?connect)\()(?:'(?:\\.|[^'\\])*(?:'|$)|"(?:\\.|[^"\\])*(?:"|$)|[^()'"])*`), `${1}` + redacted},
	// 'password' => '…', as PHP prints arrays
	{regexp.MustCompile(`(?i)(['"\[](?:password|passwd|pass|pwd|secret|token)['"\]]\s*=>\s*)('[^']*'|"[^"]*"|[^\s,)]+)`), `${1}` + redacted},
	// PGPASSWORD=…, --account-pass=…, password='…'
	{regexp.MustCompile(`(?i)((?:password|passwd|pass|pwd|secret|token|passphrase)\s*=\s*)('[^']*'|"[^"]*"|[^\s'",;)>=][^\s'",;)]*)`), `${1}` + redacted},
}

// Redact removes the given secrets from text, the longest first, and then whatever has the shape of one: password=…,
// scheme://user:…@host, PGPASSWORD=…, "db-password": "…". Empty secrets are skipped. It may be applied twice.
func Redact(text string, secrets ...string) string {
	secrets = slices.Clone(secrets)
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, s := range secrets {
		if s != "" {
			text = strings.ReplaceAll(text, s, redacted)
		}
	}
	for _, shape := range secretShapes {
		text = shape.pattern.ReplaceAllString(text, shape.with)
	}
	return text
}

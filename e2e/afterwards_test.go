//go:build e2e && !fault

package e2e

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/drupdate/drupdate/e2e/rights"
)

// excuses are rights that no audit log shows, each with the reason why it is granted nevertheless.
var excuses = map[string]string{
	"drupdate-worker: create pods/exec": "the API server asks for it within every exec, see TestAnExecNeedsCreateBesideGet",
}

// whole tells whether every test has run: what a part of them does not do proves nothing.
func whole() bool {
	return flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.skip").Value.String() == ""
}

// afterwards checks what only the whole suite can show.
func afterwards() error {
	return leastPrivilege()
}

// leastPrivilege compares what deploy/ grants with what the suite used.
func leastPrivilege() error {
	requests, err := requestsOf(rights.Account(systemNamespace, ""))
	if err != nil {
		return err
	}
	grants, err := rights.Grants(installed)
	if err != nil {
		return err
	}
	report := rights.Compare(grants, requests, excuses)
	fmt.Print(report)
	if problems := report.Problems(); len(problems) > 0 {
		return errors.New("rights and needs differ:\n" + strings.Join(problems, "\n"))
	}
	return nil
}

// requestsOf counts what accounts with a prefix asked of the API server, in all files of its audit log.
func requestsOf(prefix string) (map[rights.Request]int, error) {
	files, err := filepath.Glob(filepath.Join(state, "logs", "audit*.log"))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(err, errors.New("the API server writes no audit log"))
	}
	all := map[rights.Request]int{}
	for _, file := range files {
		log, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		requests, err := rights.Requests(log, prefix)
		if err := errors.Join(err, log.Close()); err != nil {
			return nil, err
		}
		maps.Copy(all, sum(all, requests))
	}
	return all, nil
}

func sum(a, b map[rights.Request]int) map[rights.Request]int {
	total := maps.Clone(a)
	for r, n := range b {
		total[r] += n
	}
	return total
}

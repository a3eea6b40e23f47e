package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/drupdate/drupdate/internal/cli"
)

func TestTheCodecServerEndsWith2WhenItIsNotUnderstood(t *testing.T) {
	t.Parallel()
	for line, env := range map[string]string{"codec-server here": "", "codec-server": "", "codec-server --codec-keys x --addr nowhere": "", "codec-server --codec-keys x": "DRUPDATE_UI_ORIGIN", "version here": ""} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			code := run(t.Context(), strings.Fields(line), func(n string) (string, bool) { return "nonsense", n == env && env != "" }, &out, &errs)
			require.Equal(t, cli.ExitUsage, code)
		})
	}
}

func TestAVariableForOutputIsChecked(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"status", "--kubeconfig=/nowhere"}, func(n string) (string, bool) { return "xml", n == "DRUPDATE_OUTPUT" }, &out, &errs)
	require.Equal(t, cli.ExitUsage, code)
}

func TestANegativeTimeoutIsNotForEver(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"update", "blog", "--to=1", "--wait", "--timeout=-5m", "--kubeconfig=/nowhere"}, noEnv, &out, &errs)
	require.Equal(t, cli.ExitUsage, code)
}

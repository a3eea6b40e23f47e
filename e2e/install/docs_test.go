//go:build e2e

package install

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// pages are the documents whose blocks are held to the truth, in the order of an installation's life: each finds the
// cluster as the one before has left it.
var pages = []string{"install", "troubleshooting", "sizing", "gitops", "adoption", "upgrade", "uninstall", "faq"}

// blockLimit is how long one block may take.
const blockLimit = 12 * time.Minute

// block is a fenced block of a document.
type block struct {
	// info is what stands behind the fence: "sh run" is run, "sh" is read, "yaml", "yaml values" and "lua" are decoded.
	info, text string
	line       int
}

func TestEveryCommandOfTheDocumentsThatCanRunHereDoes(t *testing.T) {
	empty(t)
	for _, page := range pages {
		for _, b := range blocks(t, page) {
			if b.info != "sh run" {
				continue
			}
			if !t.Run(at(page, b), func(t *testing.T) { b.run(t) }) {
				t.Fatal("what follows builds on it")
			}
		}
	}
}

func (b block) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), blockLimit)
	defer cancel()
	shell := command(ctx, "bash", "-euo", "pipefail", "-c", b.text)
	out, err := shell.CombinedOutput()
	t.Logf("%s\n%s", b.text, out)
	if err != nil {
		t.Logf("%s", dump(t))
	}
	require.NoError(t, err)
}

// dump shows what a person would look at.
func dump(t *testing.T) []byte {
	var all bytes.Buffer
	for _, args := range []string{"get dsite,deploy,pod,job -A -o wide", "get events -A --sort-by=.lastTimestamp", "-n drupdate-system logs deploy/drupdate-worker --tail=30"} {
		out, err := command(context.WithoutCancel(t.Context()), "kubectl", strings.Fields(args)...).CombinedOutput()
		all.WriteString("$ kubectl " + args + "\n")
		all.Write(out)
		if err != nil {
			all.WriteString(err.Error() + "\n")
		}
	}
	return all.Bytes()
}

func TestWhatTheDocumentsShowIsUnderstood(t *testing.T) {
	t.Parallel()
	for _, page := range pages {
		for _, b := range blocks(t, page) {
			t.Run(at(page, b), func(t *testing.T) {
				t.Parallel()
				switch b.info {
				case "sh", "sh run":
					b.flagsExist(t)
				case "yaml":
					b.decodes(t)
				case "yaml values":
					b.areValues(t)
				case "lua": // See TestTheHealthChecksTellAFailedUpdateFromADoneOne.
				default:
					t.Errorf("nobody looks at a block of %q", b.info)
				}
			})
		}
	}
}

// A page that nobody lists is one that nobody runs.
func TestEveryPageAboutInstallingIsHeldToTheTruth(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".md")
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		if bytes.Contains(raw, []byte("```sh run")) {
			require.Contains(t, pages, name)
		}
	}
}

// decodes reads objects strictly where their kinds are known here; other people's kinds have to be YAML and to have one.
func (b block) decodes(t *testing.T) {
	t.Helper()
	for document := range strings.SplitSeq(b.text, "\n---\n") {
		object := &unstructured.Unstructured{}
		require.NoError(t, yaml.UnmarshalStrict([]byte(document), &object.Object))
		require.NotEmpty(t, object.GetAPIVersion())
		require.NotEmpty(t, object.GetKind())
		if !scheme.Recognizes(object.GroupVersionKind()) {
			require.NotContains(t, object.GetAPIVersion(), "drupdate.dev")
			continue
		}
		typed, err := scheme.New(object.GroupVersionKind())
		require.NoError(t, err)
		require.NoError(t, yaml.UnmarshalStrict([]byte(document), typed))
	}
}

// areValues has the chart take them.
func (b block) areValues(t *testing.T) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	require.NoError(t, os.WriteFile(file, []byte(b.text), 0o600))
	run(t, "helm", "template", "drupdate", "deploy/charts/drupdate", "--namespace", system, "--values", file)
}

func at(page string, b block) string {
	return page + ".md:" + strings.Repeat("0", max(0, 3-len(itoa(b.line)))) + itoa(b.line)
}

// blocks are the fenced blocks of a page in their order. Those in a list are indented with it.
func blocks(t *testing.T, page string) []block {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "docs", page+".md"))
	require.NoError(t, err)
	var all []block
	var open *block
	indent := ""
	for i, line := range strings.Split(string(raw), "\n") {
		info, fence := strings.CutPrefix(strings.TrimLeft(line, " "), "```")
		switch {
		case fence && open == nil:
			indent = line[:strings.Index(line, "`")]
			open = &block{info: info, line: i + 1}
		case fence:
			all = append(all, *open)
			open = nil
		case open != nil:
			open.text += strings.TrimPrefix(line, indent) + "\n"
		}
	}
	require.Nil(t, open, "%s.md: a block has no end", page)
	return slices.Clip(all)
}

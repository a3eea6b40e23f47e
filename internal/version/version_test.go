package version

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheLinkerWinsOverTheBuildRecord(t *testing.T) {
	t.Parallel()
	build := &debug.BuildInfo{
		Main:     debug.Module{Version: "v1.2.3"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}},
	}
	linked, recorded := Info{Version: "v9", Commit: "def"}, Info{}
	linked.fill(build)
	recorded.fill(build)
	require.Equal(t, Info{Version: "v9", Commit: "def"}, linked)
	require.Equal(t, Info{Version: "v1.2.3", Commit: "abc"}, recorded)
}

func TestNothingIsLeftEmpty(t *testing.T) {
	t.Parallel()
	info := Read()
	require.NotEmpty(t, info.Version)
	require.NotEmpty(t, info.Commit)
	require.NotEmpty(t, info.Go)
}

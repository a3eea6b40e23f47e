// Package version tells which build this is.
package version

import "runtime/debug"

// Set by the linker with -X; empty in a build without.
var (
	version string
	commit  string
)

// unknown stands for what a build does not tell.
const unknown = "unknown"

// Info is a build's identity.
type Info struct {
	Version string
	Commit  string
	Go      string
}

// Read returns what the linker was told, else what the build itself recorded, else "unknown".
func Read() Info {
	info := Info{Version: version, Commit: commit}
	build, ok := debug.ReadBuildInfo()
	if ok {
		info.Go = build.GoVersion
		info.fill(build)
	}
	for _, field := range []*string{&info.Version, &info.Commit, &info.Go} {
		if *field == "" {
			*field = unknown
		}
	}
	return info
}

func (i *Info) fill(build *debug.BuildInfo) {
	if i.Version == "" && build.Main.Version != "(devel)" {
		i.Version = build.Main.Version
	}
	for _, s := range build.Settings {
		if s.Key == "vcs.revision" && i.Commit == "" {
			i.Commit = s.Value
		}
	}
}

// String is one line for people.
func (i Info) String() string {
	return "drupdate " + i.Version + " (commit " + i.Commit + ", " + i.Go + ")"
}

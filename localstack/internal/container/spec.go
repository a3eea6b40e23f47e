// Package container runs a command as a mini container: in a root folder of
// its own, with mount, process and host-name namespaces of its own, and with
// the host's network and programs. It separates, it does not confine.
package container

// Mount shows a file or folder of the host inside the container.
type Mount struct {
	Source   string `json:"source"`
	Target   string `json:"target"` // absolute, inside the container.
	ReadOnly bool   `json:"readOnly,omitempty"`
}

// Spec is what one container runs and sees.
type Spec struct {
	Root     string   `json:"root"` // the root folder, on the host.
	Hostname string   `json:"hostname,omitempty"`
	Mounts   []Mount  `json:"mounts,omitempty"`
	Args     []string `json:"args"`
	Env      []string `json:"env"`
	Dir      string   `json:"dir,omitempty"` // empty means the root.
	UID      *int64   `json:"uid,omitempty"`
	GID      *int64   `json:"gid,omitempty"`
	Inside   int      `json:"inside,omitempty"` // the process whose container a command joins; 0 makes a container.
}

// Program is the name of the program that is the first process of a container.
const Program = "container-init"

// The file descriptors that the first process finds open besides the standard ones.
const (
	reportFD = 3 // takes the reason when the command cannot be started; closed without one means success.
	specFD   = 4 // gives the Spec as JSON.
)

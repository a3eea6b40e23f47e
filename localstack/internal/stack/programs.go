package stack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/drupdate/drupdate/localstack/internal/build"
)

// kubernetesVersion is what the built control plane says it is. It is the
// version of k8s.io/kubernetes in go.mod.
const kubernetesVersion = "v1.37.2"

// kubebox is the one program that is every part of the control plane, and kubectl.
const kubebox = "kubebox"

// kubectl is the link for people and scripts.
const kubectl = "kubectl"

// programs makes sure that the bin folder has the program of every part that
// is to be started, as a link to what was found or built.
func (s *Stack) programs(ctx context.Context, out io.Writer, parts []component) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find programs: %w", err)
	}
	wanted := map[string]bool{kubectl: s.config.Kubeconfig == ""}
	for _, part := range parts {
		wanted[part.program] = true
	}
	if wanted["localstack"] {
		if err := s.link("localstack", self); err != nil {
			return err
		}
	}
	if wanted[Temporal] {
		if err := s.temporalProgram(ctx, out); err != nil {
			return err
		}
	}
	for _, name := range []string{Etcd, APIServer, ControllerManager, Scheduler, kubectl} {
		if !wanted[name] {
			continue
		}
		if err := s.kubernetesProgram(ctx, out, name); err != nil {
			return err
		}
	}
	return nil
}

// kubernetesProgram takes a part from the folder that test tools use, if it is
// there, and from our own build otherwise.
func (s *Stack) kubernetesProgram(ctx context.Context, out io.Writer, name string) error {
	if assets := os.Getenv(assetsVariable); assets != "" && filepath.Clean(assets) != s.path("bin") {
		given := filepath.Join(assets, name)
		if _, err := os.Stat(given); err == nil {
			return s.link(name, given)
		}
	}
	if err := s.buildKubebox(ctx, out); err != nil {
		return err
	}
	return s.link(name, s.path("bin", kubebox))
}

func (s *Stack) buildKubebox(ctx context.Context, out io.Writer) error {
	module, _, err := s.modules()
	if err != nil {
		return built(s.path("bin", kubebox), err)
	}
	return build.Ensure(ctx, out, build.Target{
		Title:   "the Kubernetes control plane",
		Expect:  "about 15 minutes the first time on two cores, seconds afterwards",
		Module:  module,
		Package: "./cmd/kubebox",
		LDFlags: kubernetesLDFlags(),
		Sources: []string{"cmd/kubebox/*.go"},
		Output:  s.path("bin", kubebox),
	})
}

func (s *Stack) temporalProgram(ctx context.Context, out io.Writer) error {
	if given, err := exec.LookPath(Temporal); err == nil {
		return s.link(Temporal, given)
	}
	output := s.path("bin", "temporal-dev")
	if err := s.buildTemporal(ctx, out, output); err != nil {
		return err
	}
	return s.link(Temporal, output)
}

func (s *Stack) buildTemporal(ctx context.Context, out io.Writer, output string) error {
	_, module, err := s.modules()
	if err != nil {
		return built(output, err)
	}
	return build.Ensure(ctx, out, build.Target{
		Title:   "the Temporal development server",
		Expect:  "about 5 minutes the first time on two cores, seconds afterwards",
		Module:  module,
		Package: "github.com/temporalio/cli/cmd/temporal",
		LDFlags: "-s -w",
		Output:  output,
	})
}

// built forgives missing sources when there is a program from an earlier time.
func built(program string, missing error) error {
	if _, err := os.Stat(program); err != nil {
		return missing
	}
	return nil
}

// modules finds the sources from where the user is, or from the state folder.
func (s *Stack) modules() (localstack, temporal string, err error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", "", fmt.Errorf("find the repository: %w", err)
	}
	if localstack, temporal, err = build.FindModules(dir); err == nil {
		return localstack, temporal, nil
	}
	return build.FindModules(s.dir)
}

// kubernetesLDFlags set the version that the API server and kubectl report.
func kubernetesLDFlags() string {
	var flags strings.Builder
	minor := strings.Split(kubernetesVersion, ".")[1]
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		for _, value := range [][2]string{
			{"gitVersion", kubernetesVersion},
			{"gitMajor", "1"},
			{"gitMinor", minor},
			{"gitTreeState", "clean"},
			{"gitCommit", strings.Repeat("0", 40)},
		} {
			fmt.Fprintf(&flags, "-X %s.%s=%s ", pkg, value[0], value[1])
		}
	}
	return flags.String() + "-s -w"
}

// link makes bin/NAME lead to a program. It links nothing to itself.
func (s *Stack) link(name, program string) error {
	link := s.path("bin", name)
	if link == program {
		return nil
	}
	if to, err := os.Readlink(link); err == nil && to == program {
		return nil
	}
	if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("link program: %w", err)
	}
	if err := os.Symlink(program, link); err != nil {
		return fmt.Errorf("link program: %w", err)
	}
	return nil
}

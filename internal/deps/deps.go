package deps

import (
	_ "github.com/go-logr/zapr"
	_ "github.com/robfig/cron/v3"
	_ "github.com/spf13/cobra"
	_ "github.com/stretchr/testify/require"
	_ "go.temporal.io/sdk/client"
	_ "go.temporal.io/sdk/contrib/envconfig"
	_ "go.temporal.io/sdk/testsuite"
	_ "go.temporal.io/sdk/worker"
	_ "go.uber.org/zap"
	_ "go.uber.org/zap/exp/zapslog"
	_ "k8s.io/api/apps/v1"
	_ "k8s.io/client-go/kubernetes"
	_ "k8s.io/client-go/tools/remotecommand"
	_ "sigs.k8s.io/controller-runtime"
	_ "sigs.k8s.io/controller-runtime/pkg/client/fake"
	_ "sigs.k8s.io/controller-runtime/pkg/envtest"
	_ "sigs.k8s.io/yaml"
	_ "golang.org/x/term"
)

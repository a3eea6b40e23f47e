// Package logging makes the one logger of the process, and hands it to the
// libraries that want one of their own kind.
package logging

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	temporallog "go.temporal.io/sdk/log"
	"go.uber.org/zap"
	"go.uber.org/zap/exp/zapslog"
	"go.uber.org/zap/zapcore"
)

// Formats of log entries.
const (
	// JSON is one object a line, for machines.
	JSON = "json"
	// Console is for people.
	Console = "console"
)

// Check returns an error for a level or a format that New would refuse.
func Check(level, format string) error {
	if _, err := zapcore.ParseLevel(level); err != nil {
		return fmt.Errorf("log level %q is not known: use debug, info, warn or error", level)
	}
	if format != JSON && format != Console {
		return fmt.Errorf("log format %q is not known: use %s or %s", format, JSON, Console)
	}
	return nil
}

// New makes a logger that writes to out, which must be safe for concurrent use or a file.
func New(out io.Writer, level, format string) (*zap.Logger, error) {
	if err := Check(level, format); err != nil {
		return nil, err
	}
	least, err := zapcore.ParseLevel(level)
	if err != nil {
		return nil, err
	}
	encoding := zap.NewProductionEncoderConfig()
	encoding.EncodeTime = zapcore.ISO8601TimeEncoder
	encoding.EncodeDuration = zapcore.StringDurationEncoder
	encoder := zapcore.NewJSONEncoder(encoding)
	if format == Console {
		encoder = zapcore.NewConsoleEncoder(encoding)
	}
	core := zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(out)), least)
	return zap.New(core, zap.ErrorOutput(zapcore.Lock(zapcore.AddSync(out)))), nil
}

// Controller is the logger as controller-runtime takes it.
func Controller(l *zap.Logger) logr.Logger { return zapr.NewLogger(rekeyed(l, controllerKeys)) }

// Kubernetes is the logger as client-go takes it.
func Kubernetes(l *zap.Logger) logr.Logger {
	return zapr.NewLogger(rekeyed(l.Named("kubernetes"), kubernetesKeys))
}

// Temporal is the logger as the Temporal SDK takes it.
func Temporal(l *zap.Logger) temporallog.Logger {
	core := keyed{Core: l.Core(), names: temporalKeys, sites: true}
	handler := zapslog.NewHandler(core, zapslog.WithName("temporal"), zapslog.AddStacktraceAt(slog.Level(127)))
	return temporallog.NewStructuredLogger(slog.New(handler))
}

func rekeyed(l *zap.Logger, names map[string]string) *zap.Logger {
	return l.WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core { return keyed{Core: core, names: names} }))
}

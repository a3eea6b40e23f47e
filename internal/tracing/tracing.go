// Package tracing sends spans of runs to an OpenTelemetry collector: one trace
// from the watcher's request through the workflow to its activities.
package tracing

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"go.temporal.io/sdk/contrib/opentelemetry"
	"go.temporal.io/sdk/interceptor"
)

// sdkScope is the scope of the spans that the interceptor makes.
const sdkScope = "go.temporal.io/sdk"

// Tracing is where spans go.
type Tracing struct {
	provider trace.TracerProvider
	shutdown func(context.Context) error
}

// Off is tracing that is not wanted.
func Off() *Tracing {
	return &Tracing{provider: noop.NewTracerProvider(), shutdown: func(context.Context) error { return nil }}
}

// New sends spans by OTLP over gRPC. The collector need not be up: spans that cannot be sent are dropped. The endpoint,
// if it is not empty, wins over OTEL_EXPORTER_OTLP_ENDPOINT; everything else is told by OpenTelemetry's own variables.
func New(ctx context.Context, endpoint, service, version string) (*Tracing, error) {
	var options []otlptracegrpc.Option
	if endpoint != "" {
		options = append(options, otlptracegrpc.WithEndpointURL(endpoint))
	}
	exporter, err := otlptracegrpc.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("send traces: %w", err)
	}
	// The environment comes last, and wins.
	about, err := resource.New(ctx, resource.WithAttributes(
		attribute.String("service.name", service), attribute.String("service.version", version)), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("send traces: %w", err)
	}
	return With(sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))), nil
}

// With sends spans to a provider.
func With(provider *sdktrace.TracerProvider) *Tracing {
	return &Tracing{provider: provider, shutdown: provider.Shutdown}
}

// Tracer makes the spans of one of our packages.
func (t *Tracing) Tracer(scope string) trace.Tracer { return t.provider.Tracer(scope) }

// Interceptor carries a trace through Temporal: from a client's call to the workflow and its activities. Set it on
// client.Options.Interceptors; a client's workers take it from there. Histories replay with or without it: a trace's
// context is in headers, which replay does not compare.
func (t *Tracing) Interceptor() (interceptor.ClientInterceptor, error) {
	i, err := opentelemetry.NewTracingInterceptor(opentelemetry.TracerOptions{
		Tracer: t.Tracer(sdkScope),
		// Queries come from people and the watcher, and change nothing.
		DisableQueryTracing: true,
		// A run that was begun under another tracer goes on.
		AllowInvalidParentSpans: true,
	})
	if err != nil {
		return nil, fmt.Errorf("trace Temporal's calls: %w", err)
	}
	return i, nil
}

// Close sends what is left.
func (t *Tracing) Close(ctx context.Context) error { return t.shutdown(ctx) }

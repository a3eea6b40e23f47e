package metrics

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/opentelemetry"
)

// sdkBuckets are the bounds of the Temporal SDK's latencies, in seconds: those of a request, of a long poll and of an
// activity that waits for an hour.
var sdkBuckets = []float64{0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800, 3600}

// Temporal hands the SDK's metrics to a registry. It must be called once for each registry. Metrics of workflow code go
// through the SDK's handler, which is silent while a history is replayed.
func Temporal(registry prometheus.Registerer) (client.MetricsHandler, error) {
	// The SDK names its metrics as it wants them to be read: without the scope and the target that OpenTelemetry adds.
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo(), otelprometheus.WithoutTargetInfo())
	if err != nil {
		return nil, fmt.Errorf("export Temporal's metrics: %w", err)
	}
	latencies := sdkmetric.NewView(sdkmetric.Instrument{Kind: sdkmetric.InstrumentKindHistogram},
		sdkmetric.Stream{Aggregation: sdkmetric.AggregationExplicitBucketHistogram{Boundaries: sdkBuckets, NoMinMax: true}})
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter), sdkmetric.WithView(latencies))
	return opentelemetry.NewMetricsHandler(opentelemetry.MetricsHandlerOptions{
		Meter: provider.Meter("go.temporal.io/sdk"), UseMonotonicCounters: true,
		// A metric that cannot be made is dropped: nothing is worth a worker.
		OnError: func(error) {},
	}), nil
}

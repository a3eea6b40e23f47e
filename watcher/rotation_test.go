package watcher

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	schedulepb "go.temporal.io/api/schedule/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/drupdate/drupdate/internal/codec"
	"github.com/drupdate/drupdate/internal/update"
)

// scheduleServer is a Temporal that keeps one schedule.
type scheduleServer struct {
	workflowservice.UnimplementedWorkflowServiceServer
	kept    *schedulepb.Schedule
	updates int
}

func (s *scheduleServer) GetSystemInfo(context.Context, *workflowservice.GetSystemInfoRequest) (*workflowservice.GetSystemInfoResponse, error) {
	return &workflowservice.GetSystemInfoResponse{Capabilities: &workflowservice.GetSystemInfoResponse_Capabilities{}}, nil
}

func (s *scheduleServer) CreateSchedule(_ context.Context, r *workflowservice.CreateScheduleRequest) (*workflowservice.CreateScheduleResponse, error) {
	if s.kept != nil {
		return nil, serviceerror.ToStatus(serviceerror.NewWorkflowExecutionAlreadyStarted("there", "", "")).Err()
	}
	s.kept = r.Schedule
	return &workflowservice.CreateScheduleResponse{}, nil
}

func (s *scheduleServer) UpdateSchedule(_ context.Context, r *workflowservice.UpdateScheduleRequest) (*workflowservice.UpdateScheduleResponse, error) {
	s.kept = r.Schedule
	s.updates++
	return &workflowservice.UpdateScheduleResponse{}, nil
}

func (s *scheduleServer) DescribeSchedule(context.Context, *workflowservice.DescribeScheduleRequest) (*workflowservice.DescribeScheduleResponse, error) {
	return &workflowservice.DescribeScheduleResponse{Schedule: s.kept, Info: &schedulepb.ScheduleInfo{}}, nil
}

func newKey(t *testing.T, dir, name string) {
	t.Helper()
	key := make([]byte, 32)
	_, err := rand.Read(key)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(base64.StdEncoding.EncodeToString(key)), 0o600))
}

func encryptingStarter(t *testing.T, addr, keys string) (*TemporalStarter, codec.Codec) {
	t.Helper()
	ring, err := codec.Open(keys, zap.NewNop())
	require.NoError(t, err)
	c := codec.New(ring)
	options := client.Options{HostPort: addr}
	options.DataConverter, options.FailureConverter = c.Converters()
	cl, err := client.NewLazyClient(options)
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	return newStarter(cl, "queue", untraced, logr.Discard()), c
}

// The operator adds a key, waits until no history of the old one is left, and removes the old one, as docs/security.md says.
func TestAScheduleSurvivesTheRotationOfThePayloadKey(t *testing.T) {
	t.Parallel()
	server := &scheduleServer{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g := grpc.NewServer()
	workflowservice.RegisterWorkflowServiceServer(g, server)
	go func() { _ = g.Serve(listener) }()
	t.Cleanup(g.Stop)
	keys := t.TempDir()
	newKey(t, keys, "2026-01")
	before, _ := encryptingStarter(t, listener.Addr().String(), keys)
	require.NoError(t, before.Schedule(t.Context(), shopSite, nightly))

	newKey(t, keys, "2026-02") // rotation
	rotated, _ := encryptingStarter(t, listener.Addr().String(), keys)
	require.NoError(t, rotated.Schedule(t.Context(), shopSite, nightly)) // it is told again every hour
	require.Equal(t, 1, server.updates)
	require.NoError(t, os.Remove(filepath.Join(keys, "2026-01")))

	after, c := encryptingStarter(t, listener.Addr().String(), keys)
	require.NoError(t, after.Schedule(t.Context(), shopSite, Plan{Cron: "0 4 * * *", Zone: "UTC"}), "the plan can be changed")
	action := server.kept.GetAction().GetStartWorkflow()
	_, err = c.Decode(action.GetInput().GetPayloads())
	require.NoError(t, err, "the backups can begin")

	require.NoError(t, os.Remove(filepath.Join(keys, "2026-02")))
	newKey(t, keys, "2026-03")
	late, _ := encryptingStarter(t, listener.Addr().String(), keys)
	err = late.Schedule(t.Context(), shopSite, nightly)
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrUnavailable, "Temporal is well, and the other sites are not to wait")
}

// "temporal workflow pause" leaves a run open.
func TestAPausedRunIsOpen(t *testing.T) {
	t.Parallel()
	f := &fakeTemporal{status: enumspb.WORKFLOW_EXECUTION_STATUS_PAUSED}
	open, err := newStarter(f, "queue", untraced, logr.Discard()).Open(t.Context(), update.Site{Namespace: "a", Name: "b"}.UpdateID())
	require.NoError(t, err)
	require.True(t, open)
}

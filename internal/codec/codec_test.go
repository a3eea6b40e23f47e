package codec

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

// ring is a folder of keys, and the codec that reads it at a time of the test's own.
type ring struct {
	t     *testing.T
	dir   string
	clock time.Time
	keys  *Keyring
	codec Codec
}

func newRing(t *testing.T, names ...string) *ring {
	t.Helper()
	r := &ring{t: t, dir: t.TempDir(), clock: time.Date(2026, 3, 1, 2, 0, 0, 0, time.UTC)}
	for _, name := range names {
		r.add(name)
	}
	keys, err := Open(r.dir, zap.NewNop())
	require.NoError(t, err)
	keys.now = func() time.Time { return r.clock }
	keys.read = r.clock
	r.keys, r.codec = keys, New(keys)
	return r
}

func (r *ring) add(name string) {
	r.t.Helper()
	require.NoError(r.t, os.WriteFile(filepath.Join(r.dir, name), newKey(), 0o600))
}

func (r *ring) later(d time.Duration) { r.clock = r.clock.Add(d) }

func newKey() []byte {
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // It never fails.
	return []byte(base64.StdEncoding.EncodeToString(key) + "\n")
}

func (r *ring) seal(text string) *commonpb.Payload {
	r.t.Helper()
	sealed, err := r.codec.Encode([]*commonpb.Payload{plain(r.t, text)})
	require.NoError(r.t, err)
	return sealed[0]
}

func (r *ring) open(p *commonpb.Payload) (string, error) {
	r.t.Helper()
	opened, err := r.codec.Decode([]*commonpb.Payload{p})
	if err != nil {
		return "", err
	}
	var text string
	return text, converter.GetDefaultDataConverter().FromPayload(opened[0], &text)
}

func plain(t *testing.T, text string) *commonpb.Payload {
	t.Helper()
	p, err := converter.GetDefaultDataConverter().ToPayload(text)
	require.NoError(t, err)
	return p
}

func TestWhatWasEncryptedIsReadAgainAndIsNotReadableMeanwhile(t *testing.T) {
	t.Parallel()
	r := newRing(t, "2026-01")
	sealed := r.seal("shop.example")
	raw, err := proto.Marshal(sealed)
	require.NoError(t, err)
	require.NotContains(t, string(raw), "shop")
	require.NotContains(t, string(raw), "json")
	require.NotEqual(t, sealed.Data, r.seal("shop.example").Data, "equal payloads look different")
	text, err := r.open(sealed)
	require.NoError(t, err)
	require.Equal(t, "shop.example", text)
}

func TestAnotherKeyIsAClearErrorThatFailsTheTaskAndNotTheRun(t *testing.T) {
	t.Parallel()
	sealed := newRing(t, "ours").seal("shop.example")
	_, err := newRing(t, "theirs").open(sealed)
	require.ErrorIs(t, err, ErrUnknownKey)
	require.ErrorContains(t, err, string(sealed.Metadata[metadataKey]))
	var task *converter.WorkflowTaskFailureError
	require.ErrorAs(t, err, &task)
}

func TestAChangedPayloadIsNoticed(t *testing.T) {
	t.Parallel()
	r := newRing(t, "1", "2")
	for name, change := range map[string]func(p *commonpb.Payload){
		"a bit of the text":    func(p *commonpb.Payload) { p.Data[len(p.Data)-20] ^= 1 },
		"a bit of the nonce":   func(p *commonpb.Payload) { p.Data[0] ^= 1 },
		"the end cut off":      func(p *commonpb.Payload) { p.Data = p.Data[:len(p.Data)-1] },
		"nearly all cut off":   func(p *commonpb.Payload) { p.Data = p.Data[:3] },
		"the name of the key":  func(p *commonpb.Payload) { p.Metadata[metadataKey] = []byte(r.other()) },
		"something in the end": func(p *commonpb.Payload) { p.Data = append(p.Data, 'x') },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sealed := r.seal("shop.example")
			change(sealed)
			_, err := r.open(sealed)
			require.ErrorIs(t, err, ErrTampered)
			require.NotContains(t, err.Error(), "shop")
		})
	}
}

// other is the id of a key that does not encrypt.
func (r *ring) other() string {
	newest, _ := r.keys.current()
	for id := range r.keys.keys {
		if id != newest {
			return id
		}
	}
	return ""
}

func TestAHistoryMayBePlainAndEncrypted(t *testing.T) {
	t.Parallel()
	r := newRing(t, "1")
	opened, err := r.codec.Decode([]*commonpb.Payload{plain(t, "old"), r.seal("new"), plain(t, "old")})
	require.NoError(t, err)
	for i, want := range []string{"old", "new", "old"} {
		require.True(t, proto.Equal(plain(t, want), opened[i]))
	}
}

func TestANewKeyEncryptsAndTheOldOneStillDecryptsWithoutARestart(t *testing.T) {
	t.Parallel()
	r := newRing(t, "2026-01")
	old := r.seal("before")
	r.add("2026-02")
	require.Equal(t, old.Metadata[metadataKey], r.seal("still").Metadata[metadataKey], "the files are not read for every payload")
	r.later(time.Minute)
	fresh := r.seal("after")
	require.NotEqual(t, old.Metadata[metadataKey], fresh.Metadata[metadataKey])
	for want, sealed := range map[string]*commonpb.Payload{"before": old, "after": fresh} {
		text, err := r.open(sealed)
		require.NoError(t, err)
		require.Equal(t, want, text)
	}
	require.NoError(t, os.Remove(filepath.Join(r.dir, "2026-01")))
	r.later(time.Minute)
	_, err := r.open(r.seal("after"))
	require.NoError(t, err)
	_, err = r.open(old)
	require.ErrorIs(t, err, ErrUnknownKey, "a key that is taken away is gone")
}

func TestAKeyThatAnotherProcessGotFirstIsLookedFor(t *testing.T) {
	t.Parallel()
	r := newRing(t, "2026-01")
	r.add("2026-02")
	theirs, err := Open(r.dir, zap.NewNop())
	require.NoError(t, err)
	sealed, err := New(theirs).Encode([]*commonpb.Payload{plain(t, "theirs")})
	require.NoError(t, err)
	r.later(2 * time.Second)
	text, err := r.open(sealed[0])
	require.NoError(t, err)
	require.Equal(t, "theirs", text)
}

func TestABadChangeOfTheKeysIsLoggedAndTheKeysAreKept(t *testing.T) {
	t.Parallel()
	r := newRing(t, "2026-01")
	sealed := r.seal("text")
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "2026-02"), []byte("no key"), 0o600))
	r.later(time.Minute)
	require.Equal(t, sealed.Metadata[metadataKey], r.seal("text").Metadata[metadataKey])
	_, err := r.open(sealed)
	require.NoError(t, err)
}

func TestOpenSaysWhatIsWrongAndNeverWhatTheFileHolds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	short := filepath.Join(dir, "short")
	require.NoError(t, os.WriteFile(short, []byte("c2hvcnQ="), 0o600))
	for path, says := range map[string]string{
		filepath.Join(dir, "absent"): "no such file",
		short:                        "must hold 32 bytes in base64",
		t.TempDir():                  "the folder has no key",
	} {
		_, err := Open(path, zap.NewNop())
		require.ErrorContains(t, err, says)
		require.NotContains(t, err.Error(), "c2hvcnQ")
	}
}

func TestOneFileIsAKeyAsWell(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.WriteFile(file, bytes.TrimSpace(newKey()), 0o600))
	_, err := Open(file, zap.NewNop())
	require.NoError(t, err)
}

func TestFailuresAreEncryptedAndKeepTheirType(t *testing.T) {
	t.Parallel()
	data, failures := newRing(t, "1").codec.Converters()
	failure := failures.ErrorToFailure(temporal.NewNonRetryableApplicationError("shop.example is gone", "SiteGone", nil, "shop.example"))
	raw, err := proto.Marshal(failure)
	require.NoError(t, err)
	require.NotContains(t, string(raw), "shop")
	require.Contains(t, string(raw), "SiteGone", "workflows branch on it, and so may those who read the list of runs")
	var app *temporal.ApplicationError
	require.ErrorAs(t, failures.FailureToError(failure), &app)
	require.Equal(t, "shop.example is gone", app.Message())
	var detail string
	require.NoError(t, app.Details(&detail))
	require.Equal(t, "shop.example", detail)
	payloads, err := data.ToPayloads("a", 1)
	require.NoError(t, err)
	var text string
	var number int
	require.NoError(t, data.FromPayloads(payloads, &text, &number))
	require.Equal(t, "a", text)
}

package codec

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"
)

const webUI = "https://temporal.example"

func ask(t *testing.T, c ServerConfig, method, path string, headers map[string]string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(`{"payloads":[]}`))
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	c.Handler(newRing(t, "1").codec).ServeHTTP(w, r)
	return w
}

func TestTheServerDecryptsForTheSDKsOwnClient(t *testing.T) {
	t.Parallel()
	r := newRing(t, "1")
	server := httptest.NewServer(ServerConfig{Token: letMeIn}.Handler(r.codec))
	defer server.Close()
	remote := converter.NewRemotePayloadCodec(converter.RemotePayloadCodecOptions{
		Endpoint: server.URL,
		ModifyRequest: func(r *http.Request) error {
			r.Header.Set("Authorization", "Bearer letmein")
			return nil
		},
	})
	sealed, err := remote.Encode([]*commonpb.Payload{plain(t, "shop.example")})
	require.NoError(t, err)
	require.NotContains(t, string(sealed[0].Data), "shop")
	opened, err := remote.Decode(sealed)
	require.NoError(t, err)
	require.True(t, proto.Equal(plain(t, "shop.example"), opened[0]))
}

func TestOnlyPagesOfTheWebUIMayAsk(t *testing.T) {
	t.Parallel()
	c := ServerConfig{Origins: []string{webUI}}
	for _, method := range []string{http.MethodPost, http.MethodOptions} {
		w := ask(t, c, method, "/decode", map[string]string{"Origin": webUI})
		require.Less(t, w.Code, 300, method)
		require.Equal(t, webUI, w.Header().Get("Access-Control-Allow-Origin"))
		for _, other := range []string{"https://evil.example", "null", webUI + ".evil.example", strings.ToUpper(webUI)} {
			w = ask(t, c, method, "/decode", map[string]string{"Origin": other})
			require.Equal(t, http.StatusForbidden, w.Code, other)
			require.Empty(t, w.Header().Get("Access-Control-Allow-Origin"))
		}
	}
	require.Equal(t, http.StatusForbidden, ask(t, ServerConfig{}, http.MethodPost, "/decode", map[string]string{"Origin": webUI}).Code)
}

func TestABrowserMayShowATokenAndAskALoopbackAddress(t *testing.T) {
	t.Parallel()
	w := ask(t, ServerConfig{Origins: []string{webUI}, Token: letMeIn}, http.MethodOptions, "/decode", map[string]string{
		"Origin": webUI, "Access-Control-Request-Method": "POST", "Access-Control-Request-Private-Network": "true",
	})
	require.Equal(t, http.StatusNoContent, w.Code, "a preflight cannot carry a token")
	require.Contains(t, w.Header().Get("Access-Control-Allow-Headers"), "Authorization")
	require.Equal(t, "true", w.Header().Get("Access-Control-Allow-Private-Network"))
}

func letMeIn() (string, error) { return "letmein", nil }

func TestATokenIsNeededWhereOneIsSet(t *testing.T) {
	t.Parallel()
	c := ServerConfig{Token: letMeIn}
	for header, code := range map[string]int{
		"Bearer letmein": http.StatusOK, "": http.StatusUnauthorized, "Bearer ": http.StatusUnauthorized,
		"Bearer letmei": http.StatusUnauthorized, "letmein": http.StatusUnauthorized,
	} {
		require.Equal(t, code, ask(t, c, http.MethodPost, "/decode", map[string]string{"Authorization": header}).Code, header)
	}
}

func TestATokenThatWasExchangedCountsAtOnce(t *testing.T) {
	t.Parallel()
	token, fault := "first", error(nil)
	c := ServerConfig{Token: func() (string, error) { return token, fault }}
	code := func(shown string) int {
		return ask(t, c, http.MethodPost, "/decode", map[string]string{"Authorization": "Bearer " + shown}).Code
	}
	require.Equal(t, http.StatusOK, code("first"))
	token = "second"
	require.Equal(t, http.StatusUnauthorized, code("first"))
	require.Equal(t, http.StatusOK, code("second"))
	fault = errors.New("it is gone")
	require.Equal(t, http.StatusServiceUnavailable, code("second"))
	token, fault = "", nil
	require.Equal(t, http.StatusServiceUnavailable, code(""), "no token in the file lets nobody in")
}

func TestNothingElseIsServed(t *testing.T) {
	t.Parallel()
	for path, method := range map[string]string{"/": http.MethodPost, "/decode": http.MethodGet, "/x/decode": http.MethodPost} {
		require.GreaterOrEqual(t, ask(t, ServerConfig{}, method, path, nil).Code, 400, path)
	}
}

func TestAnAddressForEverybodyNeedsAToken(t *testing.T) {
	t.Parallel()
	for addr, fine := range map[string]bool{"127.0.0.1:8089": true, "[::1]:8089": true, "localhost:8089": true, ":8089": false, "0.0.0.0:8089": false, "10.0.0.1:8089": false} {
		err := ServerConfig{Addr: addr}.Validate()
		require.Equal(t, fine, err == nil, "%s: %v", addr, err)
		require.NoError(t, ServerConfig{Addr: addr, Token: letMeIn}.Validate())
	}
	require.ErrorContains(t, ServerConfig{Addr: "nowhere", Origins: []string{"*", webUI + "/"}}.Validate(), "no origin")
}

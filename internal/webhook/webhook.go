// Package webhook sends notifications as CloudEvents over HTTP, signed.
package webhook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/drupdate/drupdate/internal/neterr"
	"github.com/drupdate/drupdate/internal/secretfile"
	"github.com/drupdate/drupdate/internal/update"
)

// Headers of a request. The signature is "sha256=" and the HMAC-SHA256, in hex, of the time stamp, a dot and the body.
const (
	HeaderTimestamp = "Drupdate-Timestamp"
	HeaderSignature = "Drupdate-Signature"
)

// contentType is that of a CloudEvent in structured mode.
const contentType = "application/cloudevents+json; charset=utf-8"

// typePrefix is the start of the type of every event; the kind of the notification follows.
const typePrefix = "dev.drupdate.update."

// requestTimeout limits one request.
const requestTimeout = 15 * time.Second

// errSecret keeps the path, and what is in the file, out of histories.
var errSecret = errors.New("webhook: the secret cannot be read from its file, or is empty")

// event is a CloudEvent 1.0 in JSON. Source and ID together are its own.
type event struct {
	SpecVersion     string    `json:"specversion"`
	ID              string    `json:"id"`
	Source          string    `json:"source"`
	Type            string    `json:"type"`
	Subject         string    `json:"subject"`
	Time            time.Time `json:"time"`
	DataContentType string    `json:"datacontenttype"`
	Data            data      `json:"data"`
}

// data is what the event says about the update.
type data struct {
	Namespace  string       `json:"namespace"`
	Site       string       `json:"site"`
	UID        string       `json:"uid,omitempty"`
	Release    string       `json:"release,omitempty"`
	Failsafe   string       `json:"failsafe,omitempty"`
	Phase      update.Phase `json:"phase"`
	Reason     string       `json:"reason,omitempty"`
	Message    string       `json:"message,omitempty"`
	WorkflowID string       `json:"workflowID"`
	RunID      string       `json:"runID"`
}

// Sender sends to one address. Its methods may be called from many goroutines.
type Sender struct {
	url        string
	secretFile string
	client     *http.Client
	now        func() time.Time
}

// New makes a sender. The secret is read from its file for each request, so that it can be changed without a restart;
// New fails if it cannot be read now, or if the address is not one of HTTP.
func New(address, secretFile string) (*Sender, error) {
	if err := Check(address, secretFile); err != nil {
		return nil, err
	}
	return &Sender{
		url: address, secretFile: secretFile, now: time.Now,
		client: &http.Client{
			Timeout: requestTimeout,
			// A redirect would carry the notification to somebody who was not configured.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// Check returns an error for what New would refuse. The error does not repeat the address, which may hold a token.
func Check(address, secretFile string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return errors.New("webhook: the address is not one of http or https")
	}
	_, err = secret(secretFile)
	return err
}

func secret(file string) ([]byte, error) {
	text, err := secretfile.Read(file)
	if err != nil {
		return nil, errSecret
	}
	return []byte(text), nil
}

// Send sends one notification. Any answer but 2xx is an error, and no error tells the address or the secret.
func (s *Sender) Send(ctx context.Context, n update.Notification) error {
	key, err := secret(s.secretFile)
	if err != nil {
		return err
	}
	body, err := json.Marshal(eventOf(n))
	if err != nil {
		return fmt.Errorf("webhook: encode the event: %w", err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(body))
	if err != nil {
		return errors.New("webhook: the address is not one of http or https")
	}
	stamp := strconv.FormatInt(s.now().Unix(), 10)
	request.Header.Set("Content-Type", contentType)
	request.Header.Set("User-Agent", "drupdate")
	request.Header.Set(HeaderTimestamp, stamp)
	request.Header.Set(HeaderSignature, Sign(key, stamp, body))
	response, err := s.client.Do(request)
	if err != nil {
		return fmt.Errorf("webhook: no answer: %s", unreachable(err))
	}
	defer func() {
		_, _ = io.CopyN(io.Discard, response.Body, 1<<16) // Only so that the connection can be used again.
		_ = response.Body.Close()                         // Nothing was written.
	}()
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return fmt.Errorf("webhook: it answers with status %d", response.StatusCode)
	}
	return nil
}

// Sign is the signature of a body that was sent at a time, in seconds since 1970.
func Sign(key []byte, stamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(stamp + "."))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

func eventOf(n update.Notification) event {
	return event{
		SpecVersion: "1.0", ID: n.ID, Type: typePrefix + string(n.Kind), Subject: n.Site.String(), Time: n.Time.UTC(),
		Source:          fmt.Sprintf("/apis/drupdate.dev/v1alpha1/namespaces/%s/drupalsites/%s", n.Site.Namespace, n.Site.Name),
		DataContentType: "application/json",
		Data: data{
			Namespace: n.Site.Namespace, Site: n.Site.Name, UID: n.Site.UID, Release: n.Release, Failsafe: n.From,
			Phase: n.Phase, Reason: n.Reason, Message: n.Message, WorkflowID: n.WorkflowID, RunID: n.RunID,
		},
	}
}

// unreachable says why there was no answer, without the address.
func unreachable(err error) string {
	return cmp.Or(neterr.Why(err), "the connection failed")
}

package rights

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Request is what an account asked for; equal ones are counted together.
type Request struct {
	Account, Verb string
	Resource      Resource
	// Namespace is empty for a request about the whole cluster, all namespaces included.
	Namespace string
	Name      string
	// Refused is what the API server said when it had no rule that allows the request; empty when it had one.
	Refused string
}

// event is what is read of an entry of the audit log.
type event struct {
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	Stage      string `json:"stage"`
	Verb       string `json:"verb"`
	RequestURI string `json:"requestURI"`
	ObjectRef  *struct {
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"responseStatus"`
}

// Requests counts the requests of all accounts with a prefix in an audit log. An entry that was being written when the
// log was read is left out.
func Requests(log io.Reader, prefix string) (map[Request]int, error) {
	counts := map[Request]int{}
	lines := bufio.NewReader(log)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return counts, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read audit log: %w", err)
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("read audit log: %w", err)
		}
		// A watch or an exec has an entry when it starts, and one when it ends.
		if strings.HasPrefix(e.User.Username, prefix) && e.Stage != "ResponseStarted" {
			counts[e.request()]++
		}
	}
}

func (e event) request() Request {
	r := Request{Account: e.User.Username, Verb: e.Verb, Resource: Resource{Name: e.path()}}
	if o := e.ObjectRef; o != nil {
		r.Resource = Resource{o.APIGroup, o.Resource, o.Subresource}
		r.Namespace, r.Name = o.Namespace, o.Name
	}
	if e.ResponseStatus.Code == http.StatusForbidden && byRights(e.ResponseStatus.Message) {
		r.Refused = e.ResponseStatus.Message
	}
	return r
}

func (e event) path() string {
	path, _, _ := strings.Cut(e.RequestURI, "?")
	return path
}

// byRights tells a refusal by RBAC from one by admission: a quota, or a namespace that is being deleted.
func byRights(message string) bool {
	return strings.Contains(message, ` cannot `) || !strings.Contains(message, "is forbidden")
}

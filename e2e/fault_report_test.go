//go:build fault

package e2e

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

// dump tells what was drawn, what happened, and what the world looks like now.
func (r *round) dump() string {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) //nolint:forbidigo // it must look even when the test's time is up
	defer cancel()
	var b strings.Builder
	fmt.Fprintf(&b, "VIOLATION in round %d/%d, namespace %s; run it again with SEED=%d\n", r.seed, r.index, r.ns, r.seed)
	for _, v := range r.broken {
		fmt.Fprintf(&b, "  %s\n", v)
	}
	fmt.Fprintf(&b, "drawn: %s\n", r.plan)
	if g := r.wave.plan.global; g != nil {
		fmt.Fprintf(&b, "to all: %s (%.1f s) after %.1f s\n", g.name, g.last.Seconds(), r.wave.plan.at.Seconds())
	}
	fmt.Fprintf(&b, "what happened:\n")
	for _, n := range r.notes {
		fmt.Fprintf(&b, "  %s\n", n)
	}
	if r.ns == "" {
		return b.String()
	}
	r.dumpHistories(ctx, &b)
	for _, args := range [][]string{
		{"get", "dsite,deploy,rs,pod,job,cronjob,pvc", "-o", "wide"},
		{"get", "dsite", "-o", "yaml"},
		{"get", "events", "--sort-by=.lastTimestamp"},
	} {
		out, err := exec.CommandContext(ctx, "kubectl", append([]string{"-n", r.ns}, args...)...).CombinedOutput()
		fmt.Fprintf(&b, "kubectl %v: %v\n%s\n", args, err, out)
	}
	r.dumpWorld(ctx, &b)
	return b.String()
}

func (r *round) dumpWorld(ctx context.Context, b *strings.Builder) {
	events, err := r.journal()
	fmt.Fprintf(b, "journal, judged from %d (%v):\n", r.offset, err)
	for _, e := range events {
		fmt.Fprintf(b, "  %s %-15s %-22s pid %-8d pod %-40s exit %d maintenance %-5t %s\n",
			e.Time.Format("15:04:05.000"), e.Event, e.Release, e.PID, e.Pod, e.Exit, e.Maintenance, e.Detail)
	}
	if content, err := r.content(); err == nil {
		content.Password, content.Rows = "", nil
		raw, _ := json.Marshal(content) // a State always marshals
		fmt.Fprintf(b, "database: %s\n", raw)
	}
	if dir, err := r.volume(r.name + "-backups"); err == nil {
		out, _ := exec.CommandContext(ctx, "ls", "-la", "--full-time", dir).CombinedOutput() // its words are its error
		fmt.Fprintf(b, "backups:\n%s\n", out)
	}
	for _, name := range []string{"node.log", "fault-worker.log", "fault-watcher.log"} {
		fmt.Fprintf(b, "%s:\n%s\n", name, grep(filepath.Join(state, "logs", name), r.ns, 60))
	}
}

// grep returns the last lines of a file that hold a word.
func grep(path, word string, most int) string {
	file, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer file.Close()
	var lines []string
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		if line := scanner.Text(); strings.Contains(line, word) {
			lines = append(lines, "  "+line[:min(len(line), 400)])
		}
	}
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}

// dumpHistories writes the runs' histories into files, and tells their events in short.
func (r *round) dumpHistories(ctx context.Context, b *strings.Builder) {
	runs, err := r.histories(ctx)
	if err != nil {
		fmt.Fprintf(b, "histories: %v\n", err)
		return
	}
	for _, run := range runs {
		path := filepath.Join(state, "faults", fmt.Sprintf("%s-%s.json", r.ns, run.id))
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil {
			err = os.WriteFile(path, run.raw, 0o644)
		}
		fmt.Fprintf(b, "run %s is %s: %s (%v)\n%s", run.id, run.status, path, err, inShort(run.raw))
	}
}

// inShort tells the events of a history that say what the run did.
func inShort(raw []byte) string {
	var h struct {
		Events []struct {
			Time string                     `json:"eventTime"`
			Type string                     `json:"eventType"`
			ID   string                     `json:"eventId"`
			Rest map[string]json.RawMessage `json:"-"`
		} `json:"events"`
	}
	var loose struct {
		Events []map[string]json.RawMessage `json:"events"`
	}
	if json.Unmarshal(raw, &h) != nil || json.Unmarshal(raw, &loose) != nil {
		return ""
	}
	var b strings.Builder
	for i, e := range h.Events {
		kind := strings.TrimPrefix(e.Type, "EVENT_TYPE_")
		if strings.HasPrefix(kind, "WORKFLOW_TASK_") && kind != "WORKFLOW_TASK_FAILED" || kind == "UPSERT_WORKFLOW_SEARCH_ATTRIBUTES" {
			continue
		}
		fmt.Fprintf(&b, "  %s %s %s %s\n", e.Time, e.ID, kind, gist(loose.Events[i]))
	}
	return b.String()
}

// gist picks the telling fields of an event: names, payloads and failures.
func gist(event map[string]json.RawMessage) string {
	var parts []string
	for key, raw := range event {
		if !strings.HasSuffix(key, "Attributes") {
			continue
		}
		var fields map[string]any
		if json.Unmarshal(raw, &fields) != nil {
			continue
		}
		collect("", fields, &parts)
	}
	sort.Strings(parts)
	text := strings.Join(parts, " ")
	return text[:min(len(text), 700)]
}

func collect(key string, value any, parts *[]string) {
	switch v := value.(type) {
	case map[string]any:
		if name, ok := v["name"].(string); ok && key == "activityType" {
			*parts = append(*parts, name)
			return
		}
		for k, inner := range v {
			if k == "metadata" || k == "retryPolicy" || k == "header" || k == "userMetadata" || k == "stackTrace" {
				continue
			}
			collect(k, inner, parts)
		}
	case []any:
		for _, inner := range v {
			collect(key, inner, parts)
		}
	case string:
		if raw, err := base64.StdEncoding.DecodeString(v); err == nil && key == "data" {
			v = string(raw)
		}
		if key == "data" || key == "message" || key == "signalName" || key == "type" || key == "scheduledEventId" || key == "reason" || key == "startToFireTimeout" {
			*parts = append(*parts, key+"="+v)
		}
	default:
		if key == "attempt" {
			*parts = append(*parts, fmt.Sprintf("attempt=%v", v))
		} else if payload, err := json.Marshal(v); err == nil && key == "payload" {
			*parts = append(*parts, string(payload))
		}
	}
}

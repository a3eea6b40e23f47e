package cli

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/drupdate/drupdate/api/v1alpha1"
)

// report is a site as -o json and -o yaml tell it. Programs read it: fields are added, and never renamed or retyped.
type report struct {
	Namespace string       `json:"namespace"`
	Name      string       `json:"name"`
	Health    health       `json:"health"`
	State     string       `json:"state"`
	Message   string       `json:"message"`
	Since     *metav1.Time `json:"since,omitempty"`
	// Wants is spec.release.
	Wants      string                  `json:"wants"`
	Release    v1alpha1.ReleaseStatus  `json:"release"`
	Paused     bool                    `json:"paused"`
	Updating   bool                    `json:"updating"`
	Run        *v1alpha1.RunStatus     `json:"run,omitempty"`
	Open       *openRun                `json:"openRun,omitempty"`
	Conditions []metav1.Condition      `json:"conditions,omitempty"`
	Backups    []v1alpha1.BackupStatus `json:"backups,omitempty"`
	Next       []advice                `json:"next,omitempty"`
}

func (s *session) report(site *v1alpha1.DrupalSite) report {
	v := judge(site)
	return report{
		Namespace: site.Namespace, Name: site.Name, Health: v.health, State: v.state, Message: clean(v.message), Since: v.since,
		Wants: site.Spec.Release, Release: site.Status.Release, Paused: site.Spec.Update.Paused, Updating: site.InProgress(),
		Run: site.Status.Run, Conditions: site.Status.Conditions, Backups: site.Status.Backups, Next: s.advise(site, v),
	}
}

// list is several things as -o json and -o yaml tell them.
type list[T any] struct {
	Items []T `json:"items"`
}

// structured tells whether programs are to read the output.
func (s *session) structured() bool { return s.output == asJSON || s.output == asYAML }

// print writes a value in the form that was asked for.
func (s *session) print(value any) error {
	raw, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	if s.output == asYAML {
		if raw, err = yaml.JSONToYAML(raw); err != nil {
			return fmt.Errorf("encode: %w", err)
		}
		_, err = s.out.Write(raw)
		return err
	}
	_, err = s.out.Write(append(raw, '\n'))
	return err
}

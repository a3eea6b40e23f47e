package stack

// State is how a part is.
type State string

// The states of a part.
const (
	Running  State = "running"
	Paused   State = "paused"
	Stopped  State = "stopped"
	External State = "external" // someone else's, named by the environment.
)

// Status is one line about a part.
type Status struct {
	Component string `json:"component"`
	PID       int    `json:"pid,omitempty"`
	Address   string `json:"address"`
	State     State  `json:"state"`
}

// Status lists the parts and how they are, from the process table alone.
func (s *Stack) Status() ([]Status, error) {
	var statuses []Status
	for _, part := range s.components() {
		id, err := s.running(part.name)
		if err != nil {
			return nil, err
		}
		status := Status{Component: part.name, Address: part.address, State: Stopped}
		if id.Alive() {
			status.PID, status.State = id.PID, Running
		}
		if id.Paused() {
			status.State = Paused
		}
		statuses = append(statuses, status)
	}
	if s.config.Kubeconfig != "" {
		statuses = append(statuses, Status{Component: "kubernetes", Address: s.config.Kubeconfig, State: External})
	}
	if s.config.TemporalAddress != "" {
		statuses = append(statuses, Status{Component: Temporal, Address: s.config.TemporalAddress, State: External})
	}
	return statuses, nil
}

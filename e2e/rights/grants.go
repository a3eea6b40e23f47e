package rights

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Resource is what a right is about. Group is empty for the core API, Subresource for the object itself.
type Resource struct {
	Group, Name, Subresource string
}

// String is "group/name/subresource" without what is empty.
func (r Resource) String() string {
	return strings.Trim(r.Group+"/"+r.Name+"/"+r.Subresource, "/")
}

// Grant is one verb on one resource that a role gives to a service account.
type Grant struct {
	// Account is the user's name in the audit log.
	Account string
	Role    string
	// Namespace is where a RoleBinding grants it; empty means in the whole cluster.
	Namespace string
	Verb      string
	Resource  Resource
	// Names limits the grant to objects of these names, unless it is empty.
	Names []string
}

// String is the right without the account.
func (g Grant) String() string {
	text := g.Verb + " " + g.Resource.String()
	if len(g.Names) > 0 {
		text += " " + strings.Join(g.Names, ",")
	}
	if g.Namespace != "" {
		text += " in " + g.Namespace
	}
	return text
}

// Attributes are the right as the API server is asked about it.
func (g Grant) Attributes() *authorizationv1.ResourceAttributes {
	a := &authorizationv1.ResourceAttributes{
		Verb: g.Verb, Namespace: g.Namespace, Group: g.Resource.Group, Resource: g.Resource.Name, Subresource: g.Resource.Subresource,
	}
	if len(g.Names) > 0 {
		a.Name = g.Names[0]
	}
	return a
}

// covers tells whether the grant allows the request.
func (g Grant) covers(r Request) bool {
	return g.Account == r.Account && g.Verb == r.Verb && g.Resource == r.Resource &&
		(g.Namespace == "" || g.Namespace == r.Namespace) &&
		(len(g.Names) == 0 || slices.Contains(g.Names, r.Name))
}

// Grants lists what the bindings among some objects give to service accounts, in a stable order. It is an error if a
// binding names a role that is not there, or a rule cannot be proven by a log: one with a wildcard, or for addresses.
func Grants(objects []*unstructured.Unstructured) ([]Grant, error) {
	rules := map[string][]rbacv1.PolicyRule{}
	var bindings []rbacv1.RoleBinding
	for _, o := range objects {
		if !strings.HasPrefix(o.GetAPIVersion(), rbacv1.GroupName+"/") {
			continue
		}
		var err error
		switch o.GetKind() {
		case "Role", "ClusterRole":
			var role rbacv1.ClusterRole
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role)
			rules[roleKey(role.Kind, role.Namespace, role.Name)] = role.Rules
		case "RoleBinding", "ClusterRoleBinding":
			var binding rbacv1.RoleBinding
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &binding)
			bindings = append(bindings, binding)
		}
		if err != nil {
			return nil, fmt.Errorf("read %s %q: %w", o.GetKind(), o.GetName(), err)
		}
	}
	var grants []Grant
	for _, b := range bindings {
		bound, found := rules[roleKey(b.RoleRef.Kind, b.Namespace, b.RoleRef.Name)]
		if !found {
			return nil, fmt.Errorf("read binding %q: there is no %s %q", b.Name, b.RoleRef.Kind, b.RoleRef.Name)
		}
		for _, rule := range bound {
			if err := provable(b.RoleRef.Name, rule); err != nil {
				return nil, err
			}
			grants = append(grants, expand(b, rule)...)
		}
	}
	slices.SortFunc(grants, func(a, b Grant) int {
		return cmp.Or(strings.Compare(a.Account, b.Account), strings.Compare(a.Role, b.Role),
			strings.Compare(a.Resource.String(), b.Resource.String()), strings.Compare(a.Verb, b.Verb))
	})
	return grants, nil
}

func roleKey(kind, namespace, name string) string {
	if kind == "ClusterRole" {
		namespace = ""
	}
	return kind + "/" + namespace + "/" + name
}

func provable(role string, rule rbacv1.PolicyRule) error {
	for _, list := range [][]string{rule.APIGroups, rule.Resources, rule.Verbs, rule.NonResourceURLs} {
		if slices.Contains(list, "*") {
			return fmt.Errorf("role %q grants everything of a kind: %v", role, rule)
		}
	}
	if len(rule.NonResourceURLs) > 0 {
		return fmt.Errorf("role %q grants addresses: %v", role, rule.NonResourceURLs)
	}
	return nil
}

func expand(b rbacv1.RoleBinding, rule rbacv1.PolicyRule) []Grant {
	var grants []Grant
	for _, subject := range b.Subjects {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				name, subresource, _ := strings.Cut(resource, "/")
				for _, verb := range rule.Verbs {
					grants = append(grants, Grant{
						Account: Account(subject.Namespace, subject.Name), Role: b.RoleRef.Name, Namespace: b.Namespace,
						Verb: verb, Resource: Resource{group, name, subresource}, Names: rule.ResourceNames,
					})
				}
			}
		}
	}
	return grants
}

// Account is the user name of a service account.
func Account(namespace, name string) string { return "system:serviceaccount:" + namespace + ":" + name }

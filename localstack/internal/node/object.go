package node

import (
	"runtime"
	"runtime/debug"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

var eventScheme = scheme.Scheme

func eventSink(client kubernetes.Interface) record.EventSink {
	return &corev1client.EventSinkImpl{Interface: client.CoreV1().Events(corev1.NamespaceAll)}
}

// object is the node as the API server sees it: ready, and too big to be full.
func (n *Node) object() (*corev1.Node, error) {
	port, err := n.port()
	if err != nil {
		return nil, err
	}
	plenty := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("1000"),
		corev1.ResourceMemory:           resource.MustParse("4Ti"),
		corev1.ResourceEphemeralStorage: resource.MustParse("4Ti"),
		corev1.ResourcePods:             resource.MustParse("5000"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.config.Name, Labels: map[string]string{
			corev1.LabelHostname: n.config.Name, corev1.LabelOSStable: runtime.GOOS, corev1.LabelArchStable: runtime.GOARCH,
			"type": "virtual-kubelet",
		}},
		Status: corev1.NodeStatus{
			Capacity: plenty, Allocatable: plenty,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}, {Type: corev1.NodeHostName, Address: n.config.Name},
			},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: port}},
			NodeInfo: corev1.NodeSystemInfo{
				OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH, OSImage: "localstack",
				KubeletVersion: kubeletVersion(), ContainerRuntimeVersion: "localstack://1",
			},
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "localstack runs pods as processes",
				LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
			}},
		},
	}, nil
}

// kubeletVersion names the library that speaks for the kubelet.
func kubeletVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "v0.0.0-localstack"
	}
	for _, module := range info.Deps {
		if module.Path == "k8s.io/kubernetes" {
			return module.Version + "-localstack"
		}
	}
	return "v0.0.0-localstack"
}

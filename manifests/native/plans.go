package main

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var gangPlans = schema.GroupVersionResource{Group: "arnold.dev", Version: "v1alpha1", Resource: "gangplans"}

// mostBytes bounds the unpacked names of the nodes of one plan, as the extender does: a million nodes with long names.
const mostBytes = 64_000_000

// A plan is what a GangPlan promises: the node of each pod, by the pod's UID.  A gang without nodes has none.
type plan struct {
	nodes map[types.UID]string
	// text is the assignment as it is stored, to tell a change of nodes from one of words.
	text string
}

// plans holds the promises of all gangs, for many readers; an informer fills it.
type plans struct {
	lock   sync.RWMutex
	byGang map[types.NamespacedName]plan
}

// of returns what is promised to a gang; nil = nothing.
func (p *plans) of(gang types.NamespacedName) map[types.UID]string {
	p.lock.RLock()
	defer p.lock.RUnlock()
	return p.byGang[gang].nodes
}

// put takes up a GangPlan and returns its gang, and whether what is promised to it is other than before.
func (p *plans) put(object *unstructured.Unstructured) (types.NamespacedName, bool, error) {
	gang, new, err := read(object)
	p.lock.Lock()
	defer p.lock.Unlock()
	if err != nil {
		delete(p.byGang, gang)
		return gang, false, err
	}
	changed := p.byGang[gang].text != new.text
	p.byGang[gang] = new
	return gang, changed, nil
}

// drop forgets a GangPlan.
func (p *plans) drop(object *unstructured.Unstructured) {
	p.lock.Lock()
	defer p.lock.Unlock()
	delete(p.byGang, gangOf(object))
}

func gangOf(object *unstructured.Unstructured) types.NamespacedName {
	name, _, _ := unstructured.NestedString(object.Object, "spec", "gang")
	if name == "" {
		name = object.GetName()
	}
	return types.NamespacedName{Namespace: object.GetNamespace(), Name: name}
}

// read returns the gang of a GangPlan and its promise.  By rank, status.assignment has the names of the nodes, one a
// line, as base64 of zlib, and the UIDs of the pods, 16 bytes each, as base64.
func read(object *unstructured.Unstructured) (types.NamespacedName, plan, error) {
	gang := gangOf(object)
	status, _, _ := unstructured.NestedMap(object.Object, "status")
	switch phase, _ := status["phase"].(string); phase {
	case "Planned", "Released", "Bound":
	default:
		return gang, plan{}, nil
	}
	assignment, _ := status["assignment"].(map[string]any)
	packed, _ := assignment["nodes"].(string)
	uids, _ := assignment["pods"].(string)
	if packed == "" {
		return gang, plan{}, nil
	}
	names, err := unpack(packed)
	if err != nil {
		return gang, plan{}, err
	}
	pods, err := base64.StdEncoding.DecodeString(uids)
	if err != nil {
		return gang, plan{}, fmt.Errorf("assignment.pods: %w", err)
	}
	if len(pods) != 16*len(names) {
		return gang, plan{}, fmt.Errorf("assignment has %d nodes and %d bytes of pods", len(names), len(pods))
	}
	nodes := make(map[types.UID]string, len(names))
	for rank, name := range names {
		uid := uuid.UUID(pods[16*rank:])
		if name != "" && uid != uuid.Nil {
			nodes[types.UID(uid.String())] = name
		}
	}
	return gang, plan{nodes, packed + " " + uids}, nil
}

func unpack(packed string) ([]string, error) {
	raw, err := base64.StdEncoding.DecodeString(packed)
	if err != nil {
		return nil, fmt.Errorf("assignment.nodes: %w", err)
	}
	reader, err := zlib.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("assignment.nodes: %w", err)
	}
	names, err := io.ReadAll(io.LimitReader(reader, mostBytes))
	if err != nil {
		return nil, fmt.Errorf("assignment.nodes: %w", err)
	}
	if len(names) == mostBytes {
		return nil, errors.New("assignment.nodes is absurdly long")
	}
	return strings.Split(string(names), "\n"), nil
}

package codec

import (
	"crypto/rand"
	"errors"
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/proto"
)

// Encoding is the encoding of an encrypted payload.
const Encoding = "binary/encrypted"

// metadataKey is where a payload names its key.
const metadataKey = "encryption-key-id"

// ErrTampered means that a payload is not what its key encrypted.
var ErrTampered = errors.New("the encrypted payload was changed, or cut short")

// Codec is a converter.PayloadCodec of AES-256-GCM. Payloads that are not encrypted pass Decode as they are, so that
// runs which were begun before there was a key go on.
//
// What cannot be decrypted fails the workflow task, and not the run: Temporal retries it until the key is there, and no
// run takes a fault of ours for an answer of the site.
type Codec struct {
	keys *Keyring
}

var _ converter.PayloadCodec = Codec{}

// New makes a codec.
func New(keys *Keyring) Codec { return Codec{keys: keys} }

// Converters are the data converter and the failure converter of a client whose payloads and failures are encrypted.
func (c Codec) Converters() (converter.DataConverter, converter.FailureConverter) {
	data := converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), c)
	return data, temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{
		DataConverter: data, EncodeCommonAttributes: true,
	})
}

// Encode encrypts each payload, metadata included, with the newest key.
func (c Codec) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		sealed, err := c.seal(p)
		if err != nil {
			return payloads, converter.NewWorkflowTaskFailureError(fmt.Errorf("encrypt payload: %w", err))
		}
		out[i] = sealed
	}
	return out, nil
}

// Decode decrypts what Encode made, and leaves everything else. The error wraps ErrUnknownKey or ErrTampered.
func (c Codec) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		if string(p.GetMetadata()[converter.MetadataEncoding]) != Encoding {
			out[i] = p
			continue
		}
		opened, err := c.open(p)
		if err != nil {
			return payloads, converter.NewWorkflowTaskFailureError(fmt.Errorf("decrypt payload: %w", err))
		}
		out[i] = opened
	}
	return out, nil
}

func (c Codec) seal(p *commonpb.Payload) (*commonpb.Payload, error) {
	plain, err := proto.Marshal(p)
	if err != nil {
		return nil, err
	}
	id, key := c.keys.current()
	nonce := make([]byte, key.NonceSize(), key.NonceSize()+len(plain)+key.Overhead())
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}
	return &commonpb.Payload{
		Metadata: map[string][]byte{converter.MetadataEncoding: []byte(Encoding), metadataKey: []byte(id)},
		Data:     key.Seal(nonce, nonce, plain, bound(id)),
	}, nil
}

func (c Codec) open(p *commonpb.Payload) (*commonpb.Payload, error) {
	id := string(p.GetMetadata()[metadataKey])
	key, err := c.keys.byID(id)
	if err != nil {
		return nil, err
	}
	if len(p.GetData()) < key.NonceSize() {
		return nil, ErrTampered
	}
	nonce, sealed := p.GetData()[:key.NonceSize()], p.GetData()[key.NonceSize():]
	plain, err := key.Open(nil, nonce, sealed, bound(id))
	if err != nil {
		return nil, ErrTampered
	}
	opened := &commonpb.Payload{}
	if err := proto.Unmarshal(plain, opened); err != nil {
		return nil, ErrTampered
	}
	return opened, nil
}

// bound is what is authenticated beside the payload: its metadata.
func bound(id string) []byte { return []byte(Encoding + "\x00" + id) }

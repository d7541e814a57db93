package wire

import (
	"fmt"

	"github.com/ledgerlake/ledgerlake/broker/pulsar/pbfield"
)

// Commands, with the numbers of BaseCommand.Type. The field that holds a command's body has the same number.
const (
	cmdConnect        = 2
	cmdConnected      = 3
	cmdSubscribe      = 4
	cmdMessage        = 9
	cmdAck            = 10
	cmdFlow           = 11
	cmdSuccess        = 13
	cmdError          = 14
	cmdCloseConsumer  = 16
	cmdPing           = 18
	cmdPong           = 19
	cmdPartitions     = 21
	cmdPartitionsIs   = 22
	cmdLookup         = 23
	cmdLookupIs       = 24
	cmdLastMessage    = 29
	cmdLastMessageIs  = 30
	cmdActiveConsumer = 31
	cmdTopics         = 32
	cmdTopicsAre      = 33
	cmdSchema         = 34
	cmdSchemaIs       = 35
	cmdAuthChallenge  = 36
	cmdAuthResponse   = 37
	cmdAckIs          = 38
)

// MessageID is the place of a message, or of the chunk of one, in a topic.
type MessageID struct {
	Ledger, Entry int64
	Batch         int32 // -1: the message is not one of a batch
}

// String gives the form that is used in flags and errors.
func (id MessageID) String() string {
	if id.Batch < 0 {
		return fmt.Sprintf("%d:%d", id.Ledger, id.Entry)
	}
	return fmt.Sprintf("%d:%d:%d", id.Ledger, id.Entry, id.Batch)
}

// Earliest is before the first message of a topic.
var Earliest = MessageID{Ledger: -1, Entry: -1, Batch: -1}

func appendID(b []byte, num int, id MessageID) []byte {
	var m []byte
	m = pbfield.AppendInt(m, 1, id.Ledger)
	m = pbfield.AppendInt(m, 2, id.Entry)
	if id.Batch >= 0 {
		m = pbfield.AppendInt(m, 4, int64(id.Batch))
	}
	return pbfield.AppendBytes(b, num, m)
}

func parseID(b []byte) (MessageID, error) {
	id := MessageID{Batch: -1}
	r := pbfield.Read(b)
	for r.Next() {
		switch f := r.Field(); f.Num {
		case 1:
			id.Ledger = f.Int()
		case 2:
			id.Entry = f.Int()
		case 4:
			id.Batch = int32(f.Uint)
		}
	}
	return id, r.Err()
}

// base wraps a command's body.
func base(cmd int, body []byte) []byte {
	b := pbfield.AppendUint(make([]byte, 0, len(body)+16), 1, uint64(cmd))
	return pbfield.AppendBytes(b, cmd, body)
}

// parseBase gives the command and its body.
func parseBase(b []byte) (cmd int, body []byte, err error) {
	r := pbfield.Read(b)
	for r.Next() {
		switch f := r.Field(); {
		case f.Num == 1:
			cmd = int(f.Uint)
		case f.Num == cmd:
			body = f.Bytes
		}
	}
	return cmd, body, r.Err()
}

// requestIDField is where the answer to a request repeats its id.
var requestIDField = map[int]int{
	cmdSuccess: 1, cmdError: 1, cmdPartitionsIs: 2, cmdLookupIs: 4, cmdLastMessageIs: 2, cmdTopicsAre: 1, cmdSchemaIs: 1, cmdAckIs: 6,
}

// ServerError is a broker's refusal.
type ServerError struct {
	Code    int
	Message string
}

func (e *ServerError) Error() string {
	if name, ok := serverErrors[e.Code]; ok {
		return fmt.Sprintf("the broker says %s: %s", name, e.Message)
	}
	return fmt.Sprintf("the broker says error %d: %s", e.Code, e.Message)
}

// Codes of ServerError that callers tell apart.
const (
	CodeUnknown        = 0
	CodeMetadata       = 1
	CodePersistence    = 2
	CodeAuthentication = 3
	CodeAuthorization  = 4
	CodeBusy           = 5
	CodeNotReady       = 6
	CodeTopicNotFound  = 11
	CodeNoSubscription = 12
	CodeTooMany        = 14
	CodeAssign         = 19
)

var serverErrors = map[int]string{
	CodeUnknown: "unknown error", CodeMetadata: "metadata error", CodePersistence: "persistence error", CodeAuthentication: "not authenticated",
	CodeAuthorization: "not authorized", CodeBusy: "consumer busy", CodeNotReady: "service not ready", CodeTopicNotFound: "topic not found",
	CodeNoSubscription: "subscription not found", CodeTooMany: "too many requests", 17: "invalid topic name", CodeAssign: "consumer cannot be assigned", 22: "not allowed",
}

// Passing says whether asking again, with a new look-up, may help.
func (e *ServerError) Passing() bool {
	switch e.Code {
	case CodeUnknown, CodeMetadata, CodePersistence, CodeBusy, CodeNotReady, CodeTooMany, CodeAssign:
		return true
	}
	return false
}

// refusal reads an error code and its text, which stand in fields of their own in each answer; nil when there is none.
func refusal(body []byte, code, text int) error {
	var e ServerError
	found := false
	r := pbfield.Read(body)
	for r.Next() {
		switch f := r.Field(); f.Num {
		case code:
			e.Code, found = int(f.Uint), true
		case text:
			e.Message = string(f.Bytes)
		}
	}
	if r.Err() != nil {
		return r.Err()
	}
	if !found {
		return nil
	}
	return &e
}

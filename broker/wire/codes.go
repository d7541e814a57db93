package wire

import (
	"context"
	"errors"

	"github.com/ledgerlake/ledgerlake/broker"
)

// Error codes of the protocol that the server answers with.
const (
	codeNone                     int16 = 0
	codeUnknownServerError       int16 = -1
	codeOffsetOutOfRange         int16 = 1
	codeCorruptMessage           int16 = 2
	codeUnknownTopicOrPartition  int16 = 3
	codeMessageTooLarge          int16 = 10
	codeOffsetMetadataTooLarge   int16 = 12
	codeCoordinatorNotAvailable  int16 = 15
	codeInvalidTopic             int16 = 17
	codeInvalidRequiredAcks      int16 = 21
	codeIllegalGeneration        int16 = 22
	codeInconsistentProtocol     int16 = 23
	codeInvalidGroupID           int16 = 24
	codeUnknownMemberID          int16 = 25
	codeInvalidSessionTimeout    int16 = 26
	codeRebalanceInProgress      int16 = 27
	codeInvalidTimestamp         int16 = 32
	codeTopicAuthorization       int16 = 29
	codeGroupAuthorization       int16 = 30
	codeClusterAuthorization     int16 = 31
	codeUnsupportedSASL          int16 = 33
	codeIllegalSASLState         int16 = 34
	codeUnsupportedVersion       int16 = 35
	codeTopicAlreadyExists       int16 = 36
	codeInvalidPartitions        int16 = 37
	codeInvalidReplication       int16 = 38
	codeInvalidAssignment        int16 = 39
	codeInvalidConfig            int16 = 40
	codeInvalidRequest           int16 = 42
	codePolicyViolation          int16 = 44
	codeUnsupportedFormat        int16 = 43
	codeOutOfOrderSequence       int16 = 45
	codeInvalidProducerEpoch     int16 = 47
	codeInvalidTxnState          int16 = 48
	codeInvalidProducerMapping   int16 = 49
	codeInvalidTxnTimeout        int16 = 50
	codeConcurrentTxns           int16 = 51
	codeTxnIDAuthorization       int16 = 53
	codeSecurityDisabled         int16 = 54
	codeNotAttempted             int16 = 55
	codeStorageError             int16 = 56
	codeSASLFailed               int16 = 58
	codeNonEmptyGroup            int16 = 68
	codeGroupIDNotFound          int16 = 69
	codeFetchSessionNotFound     int16 = 70
	codeInvalidFetchSessionEpoch int16 = 71
	codeUnknownLeaderEpoch       int16 = 75
	codeUnsupportedCompression   int16 = 76
	codeMemberIDRequired         int16 = 79
	codeGroupMaxSize             int16 = 81
	codeFencedInstanceID         int16 = 82
	codeElectionNotNeeded        int16 = 84
	codeGroupSubscribed          int16 = 86
	codeInvalidRecord            int16 = 87
	codeUnstableOffsetCommit     int16 = 88
	codeProducerFenced           int16 = 90
	codeResourceNotFound         int16 = 91
	codeDuplicateResource        int16 = 92
	codeUnacceptableCredential   int16 = 93
	codeUnknownTopicID           int16 = 100
	codeTxnIDNotFound            int16 = 105
	codeFetchSessionTopicID      int16 = 106
	codeFencedMemberEpoch        int16 = 110
	codeUnreleasedInstanceID     int16 = 111
	codeUnsupportedAssignor      int16 = 112
	codeStaleMemberEpoch         int16 = 113
	codeUnsupportedEndpoint      int16 = 115
	codeTxnAbortable             int16 = 120
	codeInvalidRecordState       int16 = 121
	codeShareSessionNotFound     int16 = 122
	codeInvalidShareSessionEpoch int16 = 123
	codeInvalidRegex             int16 = 128
	codeShareSessionLimit        int16 = 133
)

// errInternalTopic is for changes of topics that belong to the server.
var errInternalTopic = errors.New("the topic is internal")

// errOldForZstd is for a Fetch in a version that is older than the codec of the topic.
var errOldForZstd = errors.New("the topic is compressed by zstd, which needs Fetch version 10")

// codeOf maps an error of the contract. Errors that are unknown here are the server's own fault: -1.
func codeOf(err error) int16 {
	var oor *broker.OutOfRangeError
	var denied *deniedError
	switch {
	case err == nil:
		return codeNone
	case errors.As(err, &denied):
		return denied.code()
	case errors.As(err, &oor):
		return codeOffsetOutOfRange
	case errors.Is(err, broker.ErrUnknownTopic):
		return codeUnknownTopicOrPartition
	case errors.Is(err, errUnknownTopicID):
		return codeUnknownTopicID
	case errors.Is(err, errOldForZstd):
		return codeUnsupportedCompression
	case errors.Is(err, broker.ErrTopicExists):
		return codeTopicAlreadyExists
	case errors.Is(err, broker.ErrInvalidTopic), errors.Is(err, errInternalTopic):
		return codeInvalidTopic
	case errors.Is(err, broker.ErrCorruptBatch):
		return codeCorruptMessage
	case errors.Is(err, broker.ErrInvalidRecord):
		return codeInvalidRecord
	case errors.Is(err, broker.ErrTooLarge):
		return codeMessageTooLarge
	case errors.Is(err, errTooMany), errors.Is(err, broker.ErrReadOnly):
		return codePolicyViolation
	case errors.Is(err, broker.ErrOutOfOrder):
		return codeOutOfOrderSequence
	case errors.Is(err, broker.ErrTxnState):
		return codeInvalidTxnState
	case errors.Is(err, broker.ErrProducerFenced):
		return codeInvalidProducerEpoch
	case errors.Is(err, broker.ErrInvalidTimestamp):
		return codeInvalidTimestamp
	case errors.Is(err, broker.ErrUnsupported):
		return codeUnsupportedVersion
	case errors.Is(err, broker.ErrStorage), errors.Is(err, broker.ErrClosed), errors.Is(err, errHistory),
		errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return codeStorageError // clients try again
	}
	return codeUnknownServerError
}

// coordinatorCode maps an error for requests to a coordinator: their clients try again after
// COORDINATOR_NOT_AVAILABLE, and give up after what Produce and Fetch may be told.
func coordinatorCode(err error) int16 {
	var denied *deniedError
	switch {
	case err == nil:
		return codeNone
	case errors.As(err, &denied):
		return denied.code()
	case errors.Is(err, broker.ErrUnknownTopic):
		return codeUnknownTopicOrPartition
	case errors.Is(err, errUnknownTopicID):
		return codeUnknownTopicID
	}
	return codeCoordinatorNotAvailable
}

// txnCode maps an error of the transaction coordinator. fenced is what the version of the request calls a
// producer that is not the newest.
func txnCode(err error, fenced int16) int16 {
	switch {
	case errors.Is(err, errTxnMapping):
		return codeInvalidProducerMapping
	case errors.Is(err, errTxnFenced):
		return fenced
	case errors.Is(err, errTxnState), errors.Is(err, errTxnNotAdded):
		return codeInvalidTxnState
	case errors.Is(err, errTxnConcurrent):
		return codeConcurrentTxns
	case errors.Is(err, errTxnTimeout):
		return codeInvalidTxnTimeout
	case errors.Is(err, broker.ErrTooLarge):
		return codeInvalidRequest // trying again would not help
	}
	return coordinatorCode(err)
}

// fencedCode: PRODUCER_FENCED came with a version of each request.
func fencedCode(version, since int16) int16 {
	if version < since {
		return codeInvalidProducerEpoch
	}
	return codeProducerFenced
}

func msgOf(err error) *string {
	if err == nil {
		return nil
	}
	m := err.Error()
	return &m
}

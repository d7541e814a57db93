package wire

import "github.com/ledgerlake/ledgerlake/broker"

// Keys that other files need to know.
const (
	keyProduce          = 0
	keyFetch            = 1
	keyListOffsets      = 2
	keyJoinGroup        = 11
	keySyncGroup        = 14
	keySASLHandshake    = 17
	keyAPIVersions      = 18
	keySASLAuthenticate = 36
)

// buildTable collects the rows that the files of the keys declare. A key that is not here is not announced;
// nor is one that needs something of the Log that it does not have.
func buildTable(log broker.Log) map[int16]api {
	rows := []api{
		apiProduce(), apiFetch(), apiListOffsets(), apiMetadata(),
		apiOffsetCommit(), apiOffsetFetch(), apiFindCoordinator(),
		apiJoinGroup(), apiHeartbeat(), apiLeaveGroup(), apiSyncGroup(), apiDescribeGroups(), apiListGroups(),
		apiSASLHandshake(), apiSASLAuthenticate(), apiAPIVersions(), apiCreateTopics(), apiDeleteTopics(), apiDeleteRecords(),
		apiInitProducerID(), apiOffsetForLeaderEpoch(), apiDescribeACLs(), apiCreateACLs(), apiDeleteACLs(), apiDescribeConfigs(),
		apiDeleteGroups(), apiElectLeaders(), apiListPartitionReassignments(), apiOffsetDelete(), apiDescribeClientQuotas(), apiAlterClientQuotas(),
		apiDescribeUserSCRAMCredentials(), apiAlterUserSCRAMCredentials(),
		apiDescribeCluster(), apiConsumerGroupHeartbeat(), apiConsumerGroupDescribe(), apiListConfigResources(),
		apiShareGroupHeartbeat(), apiShareGroupDescribe(), apiShareFetch(), apiShareAcknowledge(),
		apiDescribeShareGroupOffsets(), apiAlterShareGroupOffsets(), apiDeleteShareGroupOffsets(),
	}
	if _, ok := log.(configSetter); ok {
		rows = append(rows, apiAlterConfigs(), apiIncrementalAlterConfigs())
	}
	if _, ok := log.(sizer); ok {
		rows = append(rows, apiDescribeLogDirs())
	}
	if _, ok := log.(partitionAdder); ok {
		rows = append(rows, apiCreatePartitions())
	}
	if _, ok := log.(broker.Transactor); ok {
		rows = append(rows, apiAddPartitionsToTxn(), apiAddOffsetsToTxn(), apiEndTxn(), apiTxnOffsetCommit(),
			apiDescribeProducers(), apiDescribeTransactions(), apiListTransactions())
	}
	t := make(map[int16]api, len(rows))
	for _, a := range rows {
		t[a.key] = a
	}
	return t
}

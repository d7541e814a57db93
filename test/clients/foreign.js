// The same errands by clients for Node.js: node foreign.js kafkajs|platformatic ADDRESS TOPIC HISTORY
//
// It sends records, a transaction that it commits and one that it aborts; reads the whole topic in a group from the earliest
// offset, HISTORY records more than it sent; goes on in that group; and reads from an offset that it names. Each record is
// printed as a JSON object with the step that it belongs to.
'use strict'

const [client, address, topic, history] = process.argv.slice(2)
const plain = 200, inTransaction = 20, late = 10
const all = Number(history) + plain + inTransaction

const show = (step, partition, offset, value) =>
  process.stdout.write(JSON.stringify({ step, partition: Number(partition), offset: Number(offset), value: String(value) }) + '\n')
const values = (what, n) => Array.from({ length: n }, (_, i) => ({ key: `k${i % 5}`, value: `${client} ${what} ${i}` }))

async function kafkajs () {
  const { Kafka, logLevel } = require('kafkajs')
  const kafka = new Kafka({ clientId: 'kafkajs', brokers: [address], logLevel: logLevel.ERROR })
  const producer = kafka.producer({ idempotent: true })
  await producer.connect()
  await producer.send({ topic, messages: values('plain', plain) })
  const transactional = kafka.producer({ transactionalId: 'kafkajs', idempotent: true, maxInFlightRequests: 1 })
  await transactional.connect()
  for (const [what, end] of [['committed', 'commit'], ['aborted', 'abort']]) {
    const t = await transactional.transaction()
    await t.send({ topic, messages: values(what, inTransaction) })
    await t[end]()
  }
  await transactional.disconnect()

  // read takes n records of the group or, where at is given, one of that partition and offset.
  async function read (step, groupId, n, at) {
    const consumer = kafka.consumer({ groupId, readUncommitted: false })
    await consumer.connect()
    await consumer.subscribe({ topic, fromBeginning: true })
    let done
    const ended = new Promise(resolve => { done = resolve })
    const next = {}
    let got = 0
    await consumer.run({
      autoCommit: false,
      eachMessage: async ({ partition, message }) => {
        if (got >= n || (at && (partition !== at.partition || Number(message.offset) < at.offset))) return
        show(step, partition, message.offset, message.value)
        next[partition] = Number(message.offset) + 1
        if (++got === n) done()
      }
    })
    if (at) consumer.seek({ topic, partition: at.partition, offset: String(at.offset) })
    await ended
    if (!at) {
      await consumer.commitOffsets(Object.entries(next).map(([p, o]) => ({ topic, partition: Number(p), offset: String(o) })))
    }
    await consumer.disconnect()
  }
  await read('read', 'kafkajs', all)
  await producer.send({ topic, messages: values('late', late) })
  await producer.disconnect()
  await read('resumed', 'kafkajs', late)
  await read('seek', 'kafkajs-seeks', 1, { partition: 1, offset: 7 })
}

async function platformatic () {
  const { Producer, Consumer, stringSerializers, stringDeserializers, FetchIsolationLevels } = require('@platformatic/kafka')
  const base = { clientId: 'platformatic', bootstrapBrokers: [address] }
  const producer = new Producer({ ...base, serializers: stringSerializers, idempotent: true })
  const messages = (what, n) => values(what, n).map(m => ({ topic, ...m }))
  await producer.send({ messages: messages('plain', plain) })
  const transactional = new Producer({ ...base, serializers: stringSerializers, idempotent: true, transactionalId: 'platformatic' })
  for (const [what, end] of [['committed', 'commit'], ['aborted', 'abort']]) {
    const t = await transactional.beginTransaction()
    await t.send({ messages: messages(what, inTransaction) })
    await t[end]()
  }
  await transactional.close()

  async function read (step, groupId, n, options) {
    const consumer = new Consumer({ ...base, groupId, deserializers: stringDeserializers })
    const stream = await consumer.consume({
      topics: [topic], autocommit: false, isolationLevel: FetchIsolationLevels.READ_COMMITTED, maxWaitTime: 500, sessionTimeout: 10000, heartbeatInterval: 500, ...options
    })
    let got = 0
    const last = new Map()
    for await (const m of stream) {
      if (options.offsets && m.partition !== 1) continue
      show(step, m.partition, m.offset, m.value)
      last.set(m.partition, m)
      if (++got === n) break
    }
    if (!options.offsets) for (const m of last.values()) await m.commit()
    await consumer.close(true)
  }
  await read('read', 'platformatic', all, { mode: 'committed', fallbackMode: 'earliest' })
  await producer.send({ messages: messages('late', late) })
  await producer.close()
  await read('resumed', 'platformatic', late, { mode: 'committed', fallbackMode: 'earliest' })
  await read('seek', 'platformatic-seeks', 1, { mode: 'manual', offsets: [{ topic, partition: 0, offset: 0n }, { topic, partition: 1, offset: 7n }] })
}

const clients = { kafkajs, platformatic }
if (!clients[client]) throw new Error(`no client ${client} is known`)
clients[client]().then(() => process.exit(0), e => { console.error(e); process.exit(1) })

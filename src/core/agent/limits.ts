// The limits of the channel, for both ends. An end that breaks one ends the stream of the other with a
// status that names the limit.

const kib = 1024;
const mib = 1024 * kib;

/** The gRPC method (proto/agent.proto). */
export const connectPath = '/hansa.agent.v1.AgentService/Connect';

/** RFC 5705 §4: a label for use without registration. */
export const agentExporterLabel = 'EXPERIMENTAL-hansa-agent-v1';
export const agentExporterBytes = 32;

/** Random bytes that identify a process of the agent. */
export const sessionBytes = 16;

/** A hello lists the held items, about 120 bytes each. An agent with more items asks for a whole state. */
export const maxHelloItems = 10_000;
/** The hello is the largest message. An agent whose items have longer names asks for a whole state too. */
export const maxFromAgentBytes = 2 * mib;
/** Every message after the hello: a batch of signing requests with large RSA keys. */
export const maxLaterMessageBytes = 256 * kib;

/** The largest value of the store (1.5 MiB) fits in one message with other items. */
export const maxToAgentBytes = 4 * mib;
/** A message of a state closes when it exceeds this size, so that one agent delays the others little. */
export const stateMessageBytes = 512 * kib;

/** Texts for people, as in the status of an Agent: the version of the program and the name of its host. */
export const maxVersionBytes = 64;
export const maxHostBytes = 253;
/** Of workloads and entries. */
export const maxReportedCount = 2 ** 31 - 1;
export const maxProblems = 16;
export const maxProblemBytes = 512;

/** Unanswered signing requests of one stream. A batch is signed in milliseconds, so few are enough. */
export const maxUnansweredSignRequests = 8;
/** Requests in one SignRequest, X.509 and JWT together. */
export const maxSignBatch = 256;

/**
 * Messages of one agent, without acknowledgements and pongs, which the site asks for. An agent with
 * 10,000 entries asks for all of them in 200 batches of 50.
 */
export const messageBurst = 500;
export const messagesPerSecond = 100;

/**
 * New streams of one agent: each costs a TLS handshake and two commits. An agent connects again after a
 * failure with increasing delays, and after each renewal of its SVID.
 */
export const connectBurst = 60;
export const connectsPerSecond = 1;

/** Time for the hello to arrive after the stream was opened. */
export const helloWithinMs = 10_000;
/** Silence after which the site pings the agent. */
export const pingAfterMs = 20_000;
/** Time for a pong. Then the stream ends. */
export const pongWithinMs = 10_000;
/** Largest nonce of a ping. */
export const maxNonceBytes = 64;
/** Time for an agent to apply a state, which takes milliseconds. Then the stream ends. */
export const acknowledgeWithinMs = 30_000;
/** Time for an agent to get the new bundle of the site after the authority of its SVID was revoked. */
export const lastStateWithinMs = 10_000;
/**
 * Time for a replica to reach the state that the agent holds from another replica. Agents ping after 15 s
 * of silence, so they wait for it.
 */
export const catchUpWithinMs = 8_000;

// Writes docs/benchmarks.md from the figures of one run.

import { availableParallelism, totalmem } from 'node:os';
import type { Figure } from './figure.ts';

/** What a reader must know of the run that the figures come from. */
export interface RunFacts {
  readonly started: Date;
  readonly minutes: number;
  /** The load average of the last minute, when the run began. */
  readonly load: number;
  readonly kubernetes: string;
  readonly etcd: string;
  readonly spire: string;
}

export function report(figures: readonly Figure[], run: RunFacts): string {
  return `# Benchmarks

${how(run)}

The machine: ${availableParallelism()} cores, shared by the servers and the load generator, ${Math.round(totalmem() / 2 ** 30)} GiB of memory, Node ${process.versions.node}. All rows come from one run of ${Math.round(run.minutes)} minutes on ${run.started.toISOString().slice(0, 10)}; when it began, the load average was ${run.load.toFixed(1)}. Other machines give other rates. Compare the ratios.

| figure | Hansa (least to most of its rounds) | anchor | ratio (above 1 is better) | CPU µs each: Hansa, anchor | p99 ms: Hansa, anchor | |
|---|---|---|---|---|---|---|
${figures.map(row).join('\n')}

${summary(figures)}

${growth}
`;
}

/** The figures that miss what is promised. */
export function missedPromises(figures: readonly Figure[]): readonly Figure[] {
  return figures.filter((figure) => misses(figure, 'promise'));
}

function misses(figure: Figure, what: Verdict['what']): boolean {
  return verdicts(figure).some((verdict) => verdict.what === what && !verdict.held);
}

function summary(figures: readonly Figure[]): string {
  const names = (wanted: (figure: Figure) => boolean): string =>
    figures
      .filter(wanted)
      .map(({ bench }) => bench)
      .join('; ') || 'none';
  return `**Won and lost.**
- Slower or larger than the anchor: ${names(({ ratio = 1 }) => ratio < 1)}.
- Promises that do not hold: ${names((figure) => misses(figure, 'promise'))}.
- Aims that are missed: ${names((figure) => misses(figure, 'aim'))}.`;
}

const how = ({ kubernetes, etcd, spire }: RunFacts): string =>
  `Written by \`make bench BENCH=--write\`: one run, both sides on the same machine, taking turns; each figure is the median of its rounds after a warm-up, with the least and the most of them where there are several. CPU time is that of all processes of a side, the load generator left out. SPIRE is version ${spire}.

- **Idle processes** of all benchmarks are measured side by side, while nothing else is busy.
- **Memory of an idle watcher** is what was added from 200 open watches to 1,000, divided by 800: resident memory of a site, and of kube-apiserver the heap and stacks that are in use after a garbage collection, because its resident memory depends on when it collects. So the ratio favours kube-apiserver.
- **Memory after many writes** is the resident memory of all processes of a side, 75 seconds after 60,000 objects were created and deleted over 32 connections. A site keeps the last 10,000 revisions then.
- **Rates of the API** are HTTP/1.1 keep-alive over TLS from 32 connections of wrk, with bearer tokens and JSON without compression. kube-apiserver is ${kubernetes} with etcd ${etcd}, which syncs every write to disk. It has our CRDs and the same objects. It serves them as custom resources, which cost it more than its built-in kinds. A site's CREATE includes its audit row.
- **Times to the last of 1,000 watchers** run from sending the change until the client has read it on every watch. They include the client's own work, which is the same on both sides.
- **The thread** is two sites that become peers 50 times, from sending what \`hansa peer accept\` sends. Its anchor is two SPIRE servers with an agent each and a refresh hint of one minute, from the first command of the script that federates them; each command is a process. Its p99 is the worst round: of 50 for peering, of 10 for a new authority, of 5 for that of a site with ten peers, and of 7 and 2 for SPIRE. Sites that witness the audit logs of each other and sites that do not (\`peering.witness: no\`) take turns.
- **Heartbeats**: 16 peers in the process of the bench send 64 heartbeats each to one site, through the connections that a site uses. The CPU time is that of both sides. With a handshake, each heartbeat opens a new connection.
- **Peers**: a load generator plays all peers of one site but three, which are real sites. Each peer has its own authority, SVID and audit log, accepts an invitation, and has a grant. Each keeps a connection to the site, and the site keeps one to each. Both sides send a heartbeat every two seconds, verify and cosign checkpoints, and compare clocks and features, with the code of a site. What the site costs without peers is subtracted, in CPU time of one minute (two for ten peers) and in memory that is in use after a garbage collection; bundles are not refreshed in that time. While the audit log grows, one event a second is cosigned by all peers. Bytes are those at the socket, with TLS, of a heartbeat of the site and its answer. Resident memory also has what the process keeps for later.
- **The bundle** is fetched by wrk from the federation listener and from spire-server's bundle endpoint, both by https_spiffe, over 50 connections. With \`Connection: close\` each request opens a new one. For the last row 16 callers have SVIDs signed while 50 sites fetch the bundle at the same moment, each over a new connection, once a second: sixty times as often as the smallest refresh hint allows.
- **Store**: both sides flush every transaction of 32 writes to disk. The ratio is the median of the ratios of the rounds, so it can differ slightly from that of the two rates. The bare loop has SQLite's default page size and checkpoint interval.
- **Cosignatures**: the anchor is one Ed25519 signature of the bytes of a checkpoint and its verification. A cosignature is one signature, its line in the note, and the verification by the log. A witnessed checkpoint is all that a new checkpoint costs both sides, apart from disk and network: the witness also verifies the signature of the log and a consistency proof.
- **SVIDs**: those of a hundred workloads are issued in turn. The parts that all leaves of one workload share are encoded and checked once. Each leaf is linted before it is signed.
- **Mint**: one Go client, with hand-written messages so that both sides cost it the same, sends signing requests with P-256 keys over the Unix sockets for administrators; it checks every hundredth certificate. SPIRE has no stream, so its calls stand beside both rows. A site verifies requests on another thread than it signs on, and writes an audit row for each.
- **Streams**: a Go client holds 1,000 streams of the Workload API on ten connections and notes when each one receives the change. A site pushes a change at once. A spire-agent asks its server every five seconds and pushes then, so its time from the change to the last stream is mostly waiting; the row from the first stream to the last leaves that out. The spire-agent holds 500 streams, because version 1.16 did not serve 1,000 at once. p99 is the worst of 20 rounds (6 for the agent), and a new authority of a peer is measured once. Memory is what the process grew by for each stream.
- **Federations**: each has an endpoint of its own trust domain on this machine. A refresh is requested over the admin socket, 64 at once. It is complete when the site has asked the endpoint over a new TLS connection, verified its SVID and bundle, and written the outcome. The endpoints run on the same two cores.
- **Agents**: a Go client speaks to the site as up to 1,000 agents, each over a connection of its own, and to the SPIRE server as 100 SPIRE agents; SPIRE's rate limits are off. Both sides sign for 50 entries that all agents share, and verify that the agent holds each key. The site answers when the audit records are durable. Three of the agents are real \`hansa agent run\`, each with a workload. A new entry is created over the API of the site, and by the command of SPIRE. A spire-agent asks its server every five seconds. p99 is that of 200 entries (10 for SPIRE). Memory and CPU time of each agent are what a site with 100 agents needs more than one with 10, and a site with 1,000 more than one with 100; three sites have 10 agents and three have 100, and the median counts. Idle CPU time is that of three minutes, which hold several periods of all that the site repeats for each agent. The site is killed with SIGKILL, and the time until all agents are connected again includes its start and their backoff.
- **Reviews** are TokenReviews in JSON over 50 connections of wrk, with a bearer token and RS256 ServiceAccount tokens of the kube-apiserver beside it. A distinct token is one that the server has not seen, or has forgotten; the others are 100 tokens again and again. A kube-apiserver remembers an accepted token for 10 seconds, and so does a site in mode hybrid. The CPU time of a site includes that of the API server that it asks. In mode hybrid, every distinct token is forwarded. Each of many clusters has its own key, and their tokens alternate. The silent API server of the tenth cluster keeps connections open and never answers; p99 is that of the nine others. Memory is what a site with 100,000 cached verdicts needs more than one without, for each of them.
- **Reflector**: a process with one reflector and the options that a site gives Node, and one with an informer of client-go, follow the same 10,000 EndpointSlices of one kube-apiserver, with ten endpoints each. What each process needs for an empty collection is subtracted.
- **League**: three clusters, each with a kube-apiserver and a kube-controller-manager, on one etcd, and two supervisors. A client that calls an annotated Service asks the CoreDNS of its cluster, and reaches the ClusterIP by kube-proxy in nftables mode, which writes its rules at most every 100 ms here (\`nftables.minSyncPeriod\`) and every second by default; a new Service of one cluster, beside it, waits for that too. The time of a change begins when the bench sends it to the first cluster, and ends when a watch has shown it in all three. The write beside it is one of an EndpointSlice at the API server that was last. Writes are those that the API servers count themselves, with Leases and status. The election of client-go has Leases of the same duration in the same clusters, and its usual deadlines; all leaders are killed in the same rounds. The first copies are those of a cluster that has just become a member. Later it cannot be reached for two minutes, while all Services change. Members in memory are API servers in the process of the bench.
- **Policies**: NetworkPolicies with the annotation, in the same three clusters. The time of an edit begins when the bench sends it to the first cluster, and ends when a watch has shown it in all three. The write beside it is an edit of a policy without the annotation at the API server that was last. The first copies are those of a cluster that has just become a member, until it has all policies. Later it cannot be reached for two minutes, after each policy was edited on both sides; either side has the last edit of half of them. The time begins when it can be reached again, and ends when all clusters have the same policies. It includes the wait until the supervisor tries again, which does not grow with the policies. One supervisor runs then.
- **SPIRE operator**: one cluster with a kube-apiserver, a site, and a SPIRE server with its sidecar, agent and workload; the trust domains that it federates with have endpoints on the same node. A new trust domain is declared in the SpireServer, and another one is added in the same moment by the commands of an administrator (\`bundle show\`, \`bundle set\`, \`federation create\`), each a process. Both ways end with an \`entry update\`. SPIRE reloads its entries every five seconds, and the agent asks every second: the time until the workload holds the bundle is mostly that wait, which is the same for both. A refresh is requested over the admin socket for all trust domains at once. SPIRE starts after SIGKILL; its time ends when it answers with all relationships. Steady state is one minute in which each bundle is refreshed once. The 50 clusters in memory run on a virtual clock, and their CPU time includes their API servers. In the steady state, each federates with the 49 others and one more; a change is one of the only relationship of a cluster.
- **Names of machines**: a VirtualMachine with tags is created in one of three clusters with one supervisor. The time ends when its address is on the copy for ExternalDNS, and when dig has it from BIND. ExternalDNS compares once a second here, and once a minute by default. So the second time is mostly its own: the anchor is the same ExternalDNS with a Service that a user annotated.`;

const growth = `What grows how:
- A GET of the bundle, an issued SVID and a signed request cost the same for any number of federations, entries and streams: the bytes are prepared in advance, and nothing is searched.
- A changed bundle costs each stream one write of prepared bytes. The site computes the bytes once for each set of identities, not for each stream.
- A peer costs the site two connections, two heartbeats and two answers every two seconds, and a signature with each event that it cosigns. Nothing that a heartbeat needs is searched: grants are indexed by peer.
- An agent costs the site one connection, the digests of its items, and a share of the items, which agents with the same entries have in common. A changed bundle is encoded once for all agents.
- Refreshing grows linearly with the federations, in time and CPU: half of it is the TLS handshake. A federation keeps its object and its parsed bundle in memory. Jitter spreads refreshes over the refresh hint. The site asks 128 endpoints at once that answered last time, and as many of the others; a silent one gives its slot back after half a second.`;

function row(figure: Figure): string {
  const { bench, value, unit, min, max, anchor, anchorValue, ratio } = figure;
  const extremes = min === undefined ? '' : ` (${min} to ${max})`;
  const beside = anchor === undefined ? '' : `${anchorValue} (${anchor})`;
  const size = figure.bytes === undefined ? '' : ` (${figure.bytes} bytes)`;
  return `| ${[
    bench + size,
    `${value} ${unit}${extremes}`,
    beside,
    ratio ?? '',
    pair(figure.cpuMicrosEach, figure.anchorCpuMicrosEach),
    pair(figure.p99Milliseconds, figure.anchorP99Milliseconds),
    verdicts(figure)
      .map(({ text }) => text)
      .join(', '),
  ].join(' | ')} |`;
}

function pair(ours: number | undefined, anchor: number | undefined): string {
  return [ours, anchor].filter((value) => value !== undefined).join(', ');
}

interface Verdict {
  readonly what: 'promise' | 'aim';
  readonly text: string;
  readonly held: boolean;
}

function verdicts(figure: Figure): readonly Verdict[] {
  const { ratio, value, unit, atLeast, atMost, aim, aimAtMost } = figure;
  const found: Verdict[] = [];
  const promise = (held: boolean, goal: string): void => {
    found.push({ what: 'promise', held, text: `${held ? 'holds' : '**misses**'} ${goal}` });
  };
  const aimAt = (held: boolean, goal: string): void => {
    found.push({ what: 'aim', held, text: `${held ? 'reaches' : 'misses'} the aim of ${goal}` });
  };
  if (atLeast !== undefined && ratio !== undefined)
    promise(ratio >= atLeast, `at least ${atLeast}×`);
  if (atMost !== undefined) promise(value <= atMost, `at most ${atMost} ${unit}`);
  if (aim !== undefined && ratio !== undefined) aimAt(ratio >= aim, `${aim}×`);
  const most = aimAtMost ?? (ratio === undefined ? aim : undefined);
  if (most !== undefined) aimAt(value <= most, `at most ${most} ${unit}`);
  return found;
}

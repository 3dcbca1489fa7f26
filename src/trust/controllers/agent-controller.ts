// Keeps one Agent per machine: creates the object when a machine has joined, and writes its status from
// the records of joining and of the channel. The machine of the site itself is the Agent `site`.

import { type Agent, agentKind } from '../../api/kinds/agent.ts';
import { federationPeerKind } from '../../api/kinds/federation-peer.ts';
import { spiffeFederationKind } from '../../api/kinds/spiffe-federation.ts';
import { timestamp } from '../../api/object.ts';
import { siteAgentName } from '../../api/values/agent-name.ts';
import { changeDraft } from '../../core/access/audit-draft.ts';
import { controllerCaller } from '../../core/access/identity.ts';
import { hasCode } from '../../core/errors/error.ts';
import type { PlaneContext } from '../../core/plane/plane.ts';
import { type ConditionUpdate, setCondition } from '../../core/reconcile/conditions.ts';
import type { Controller, ReconcileResult } from '../../core/reconcile/controller.ts';
import type { WriteAs } from '../../core/reconcile/resource-client.ts';
import { changeSource, StoreSource } from '../../core/reconcile/source.ts';
import type { Entry, Store } from '../../core/store/store.ts';
import { agentsLease, keepEpoch } from '../agents/agent-epoch.ts';
import { liveSession, sessionsCollection } from '../agents/agent-session-records.ts';
import { type AgentState, type JudgedAgent, judgeAgent } from '../agents/agent-state.ts';
import { isLost, keepFacts, lastSeenMs } from '../agents/live-facts.ts';
import type { FederationState } from '../authorization/federation-state.ts';
import { signingProblem } from '../join/conflicts.ts';
import { agentOf, membersCollection, refusalsCollection } from '../join/member-records.ts';
import type { KeptMember, Member, Members } from '../join/members.ts';
import { type RefusedSvid, refusedSvid } from '../join/refused-svids.ts';
import { judgeVouching, vouchingDomain } from '../join/vouching.ts';

export type AgentControllerParts = Pick<
  PlaneContext,
  'store' | 'clock' | 'audit' | 'trustDomain' | 'resources' | 'version'
> & {
  readonly members: Pick<Members, 'get' | 'list' | 'forget' | 'reattestUntilMs'>;
  readonly federationState: { readonly current: FederationState };
  /** The machine of the site itself. */
  readonly site: {
    readonly host: string;
    /** The number of its connected workloads. */
    readonly workloads: () => number;
  };
};

const controllerName = 'agents';
/** An agent reconnects when its SVID renews. Only a longer absence is a change of state. */
const reconnectsWithinMs = 5_000;
/** How long the status reports that an older SVID was refused. The audit log keeps it. */
const refusedForMs = 86_400_000;
/** How often the facts of the machine of the site are written. */
const siteFactsEveryMs = 30_000;

export function agentController(parts: AgentControllerParts): Controller {
  const { store, clock, members } = parts;
  const client = parts.resources<Agent>(agentKind);
  const vouched = vouchedAgents(parts);
  const vouchers = (collection: string): StoreSource =>
    new StoreSource({ store, clock, collection, keysOf: ({ name }) => vouched(name) });
  const ofMember = ({ name }: Entry): readonly string[] => {
    const agent = agentOf(name);
    return agent === undefined ? [] : [agent];
  };
  /** Since when a stream of a connected agent is missing. */
  const absentSince = new Map<string, number>();
  return {
    name: controllerName,
    lease: agentsLease,
    // All agents reconnect when the site restarts: their status changes share commits.
    parallelism: 16,
    sources: [
      changeSource(() => () => undefined, [siteAgentName]),
      new StoreSource({ store, clock, collection: agentKind.plural }),
      new StoreSource({ store, clock, collection: membersCollection, keysOf: ofMember }),
      new StoreSource({ store, clock, collection: refusalsCollection, keysOf: ofMember }),
      new StoreSource({ store, clock, collection: sessionsCollection }),
      vouchers(federationPeerKind.plural),
      vouchers(spiffeFederationKind.plural),
    ],
    reconcile: async (name, { epoch }) => {
      const as: WriteAs = {
        controller: controllerName,
        ...(epoch === undefined ? {} : { fence: { lease: agentsLease, epoch } }),
      };
      // The key of the site comes first in every term.
      if (name === siteAgentName) await keepEpoch(store, epoch);
      const agent = await client.get(name);
      // Read after the last await, so that the labels are those of the expected revision.
      const kept = members.get(`agent/${name}`);
      if (name === siteAgentName) {
        if (kept !== undefined) await forgetReserved(parts);
        if (agent === undefined) await create(parts, name, undefined, as);
        else await writeStatus(parts, agent, { judged: ofSite, conditions: [] }, as);
        if (agent !== undefined) keepSiteFacts(parts, agent);
        return { requeueAfterMs: siteFactsEveryMs };
      }
      if (agent === undefined) {
        absentSince.delete(name);
        // The new object triggers the next run.
        if (kept !== undefined) await create(parts, name, kept, as);
        return undefined;
      }
      // Its labels and status are those of a forgotten machine. The object disappears with its finalizers.
      if (agent.metadata.deletionTimestamp !== undefined) return undefined;
      if (kept === undefined) {
        const { uid } = agent.metadata;
        await client.delete(name, as, { uid });
        return undefined;
      }
      return await follow(parts, agent, kept, absentSince, as);
    },
  };
}

/** Writes facts and status of an agent that has joined. */
async function follow(
  parts: AgentControllerParts,
  agent: Agent,
  { instance, member }: KeptMember,
  absentSince: Map<string, number>,
  as: WriteAs,
): Promise<ReconcileResult | undefined> {
  const { store, clock, trustDomain, federationState } = parts;
  const nowMs = clock.now();
  const { name } = member;
  keepFacts(store, agent, { svidExpiresAt: timestamp(member.notAfterMs) });
  const judged = judgeAgent(
    {
      member,
      signingProblem: signingProblem(member),
      vouching: judgeVouching(member, trustDomain.name, federationState.current),
      connectedUntilMs: liveSession(store, name, nowMs)?.untilMs,
      hasConnected: hasConnected(store, agent),
      reattestUntilMs: parts.members.reattestUntilMs(member),
    },
    nowMs,
  );
  if (agent.status?.state === 'Connected' && isAbsent(judged.state)) {
    const monotonicMs = clock.monotonic();
    const since = absentSince.get(name) ?? monotonicMs;
    absentSince.set(name, since);
    const restMs = since + reconnectsWithinMs - monotonicMs;
    if (restMs > 0 && !wasLost(store, agent)) return { requeueAfterMs: restMs };
  }
  absentSince.delete(name);
  const refused = newRefusal(store, instance, nowMs);
  const conditions = [...refusals(agent, refused), ...namedEntries(agent)];
  await writeStatus(parts, agent, { judged, conditions, member }, as);
  const endsAtMs = refused === undefined ? undefined : refused.atMs + refusedForMs;
  const changesAtMs = Math.min(judged.changesAtMs ?? Infinity, endsAtMs ?? Infinity);
  return changesAtMs === Infinity
    ? undefined
    : { requeueAfterMs: Math.max(changesAtMs - nowMs, 0) };
}

/** The refusal of an older SVID, while it is to be reported. */
function newRefusal(
  store: Pick<Store, 'get'>,
  instance: string,
  nowMs: number,
): RefusedSvid | undefined {
  const refused = refusedSvid(store, instance);
  return refused !== undefined && nowMs - refused.atMs < refusedForMs ? refused : undefined;
}

/** Empty if no older SVID of the agent was ever refused. */
function refusals(agent: Agent, refused: RefusedSvid | undefined): readonly ConditionUpdate[] {
  const type = 'OldSVIDRefused';
  if (refused !== undefined) {
    const { atMs, address, why } = refused;
    const from = address === undefined ? '' : ` from ${address}`;
    const message = `At ${timestamp(atMs)}, the site refused an older SVID of this agent${from}: ${why}. Its data folder may have been copied, or restored from a backup. The audit log has all such refusals.`;
    return [{ type, status: 'True', reason: 'OldSVID', message }];
  }
  if (agent.status?.conditions?.some((known) => known.type === type) !== true) return [];
  const message =
    'The site has refused no older SVID of this agent for a day, or since an operator reinstated it.';
  return [{ type, status: 'False', reason: 'NoOldSVID', message }];
}

/** Empty for an agent whose name no forgotten agent had. */
function namedEntries({ metadata: { name }, spec, status }: Agent): readonly ConditionUpdate[] {
  const type = 'EntriesByName';
  if (!spec.entriesByName) {
    const message = `Another machine was ${name} before, and was forgotten, so WorkloadEntries that name ${name} do not apply on this one. If they are to, run: kubectl patch agent ${name} --type=merge -p '{"spec":{"entriesByName":true}}'`;
    return [{ type, status: 'False', reason: 'NewMachine', message }];
  }
  if (status?.conditions?.some((known) => known.type === type) !== true) return [];
  const message = `WorkloadEntries that name ${name} apply on this machine.`;
  return [{ type, status: 'True', reason: 'Confirmed', message }];
}

/** Facts are those of this replica. The status also tells of a connection to another one. */
function hasConnected(store: Pick<Store, 'facts'>, agent: Agent): boolean {
  const state = agent.status?.state;
  return (
    state === 'Connected' || state === 'Disconnected' || lastSeenMs(store, agent) !== undefined
  );
}

/** An agent that did not answer is gone already. The facts of this replica may be about an earlier connection. */
function wasLost(store: Pick<Store, 'facts'>, agent: Agent): boolean {
  const { since } = agent.status ?? {};
  return (
    isLost(store, agent) &&
    since !== undefined &&
    Date.parse(since) <= (lastSeenMs(store, agent) ?? -Infinity)
  );
}

function isAbsent(state: AgentState): boolean {
  return state === 'Disconnected' || state === 'Joined';
}

const ofSite: Pick<JudgedAgent, 'state' | 'reason'> = {
  state: 'Connected',
  reason: 'The machine of the site itself.',
};

async function writeStatus(
  { resources, clock }: AgentControllerParts,
  { metadata: { name, uid } }: Agent,
  found: {
    readonly judged: Pick<JudgedAgent, 'state' | 'reason'>;
    readonly conditions: readonly ConditionUpdate[];
    readonly member?: Member;
  },
  as: WriteAs,
): Promise<void> {
  const { judged, member } = found;
  const { state, reason } = judged;
  const nowMs = clock.now();
  await resources<Agent>(agentKind).patchStatus(
    name,
    (current) => {
      // Another machine has joined under this name meanwhile.
      if (current.metadata.uid !== uid) return current.status ?? {};
      const { since, conditions: known, ...before } = current.status ?? {};
      const observedGeneration = current.metadata.generation;
      const ready: ConditionUpdate = {
        type: 'Ready',
        status: state === 'Connected' ? 'True' : 'False',
        reason: state,
        message: reason,
      };
      let conditions = known;
      for (const each of [ready, ...found.conditions]) {
        conditions = setCondition(conditions, { ...each, observedGeneration }, nowMs);
      }
      return {
        ...before,
        state,
        since: before.state === state && since !== undefined ? since : timestamp(nowMs),
        reason,
        ...(member === undefined
          ? {}
          : {
              joinedAt: timestamp(member.joinedAtMs),
              token: member.token,
              provenBy: member.provenBy,
            }),
        ...(conditions === undefined ? {} : { conditions }),
      };
    },
    as,
  );
}

/** Creates the Agent, with the labels of the token, if the machine is still the one that joined. */
async function create(
  { resources, members }: AgentControllerParts,
  name: string,
  kept: KeptMember | undefined,
  as: WriteAs,
): Promise<void> {
  const { labels, entriesByName = true } = kept?.member ?? {};
  const expect =
    kept === undefined
      ? []
      : [{ collection: membersCollection, name: kept.instance, at: kept.revision }];
  try {
    await resources<Agent>(agentKind).create(
      {
        name,
        spec: { maxOfflineSeconds: 3600, entriesByName },
        ...(labels === undefined ? {} : { labels }),
      },
      { ...as, expect },
    );
  } catch (error) {
    // It renewed or was forgotten: that change triggers the next run.
    if (hasCode(error, 'HANSA_CONFLICT') || hasCode(error, 'HANSA_ALREADY_EXISTS')) return;
    // It was forgotten before the first check.
    if (kept !== undefined && members.get(kept.instance) === undefined) return;
    throw error;
  }
}

/** An earlier version let machines join under this name. Their identity would be that of the site's machine. */
async function forgetReserved({ members, audit }: AgentControllerParts): Promise<void> {
  const row = audit.record(
    changeDraft(
      controllerCaller(controllerName),
      {},
      {
        verb: 'agent.forget',
        kind: 'SVID',
        name: siteAgentName,
        reason: 'the name is reserved for the machine of the site; join under another name',
      },
    ),
  );
  await members.forget(`agent/${siteAgentName}`, [row]);
}

function keepSiteFacts({ store, clock, version, site }: AgentControllerParts, agent: Agent): void {
  keepFacts(store, agent, {
    host: site.host,
    version,
    lastSeenAt: timestamp(clock.now()),
    workloads: site.workloads(),
  });
}

/** The agents for which a trust domain vouched. Computed once per change of the members. */
function vouchedAgents({
  store,
  members,
}: AgentControllerParts): (domain: string) => readonly string[] {
  let listed: unknown;
  let byDomain = new Map<string, string[]>();
  return (domain) => {
    const { entries } = store.list(membersCollection);
    if (entries !== listed) {
      listed = entries;
      byDomain = new Map();
      for (const { instance, member } of members.list()) {
        const agent = agentOf(instance);
        const voucher = vouchingDomain(member);
        if (agent === undefined || voucher === undefined) continue;
        byDomain.set(voucher, [...(byDomain.get(voucher) ?? []), agent]);
      }
    }
    return byDomain.get(domain) ?? [];
  };
}

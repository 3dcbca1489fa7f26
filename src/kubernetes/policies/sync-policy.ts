// Brings one federated policy in the target to the newest version, step by step, as the compiler says. Every write is
// fenced, and each can be the last one before a crash.

import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import { kubePath } from '../../core/kube/kube-path.ts';
import type { ReconcileContext, ReconcileResult } from '../../core/reconcile/controller.ts';
import type { PacedRun } from '../copies/origin-pacer.ts';
import { asConflict } from '../copies/sync-term.ts';
import type { Namespace } from '../objects.ts';
import { readNamespace } from '../members/read-objects.ts';
import { applyStep } from './apply-policy.ts';
import { compilePolicy, type Step } from './compile-policy.ts';
import { policyKey } from './policy-keys.ts';
import { collectionOf, idOfKind, pathOfPolicy, type PolicyKind } from './policy-kinds.ts';
import { isRead, servesKind } from './policy-member.ts';
import type { PolicyRef } from './policy-ref.ts';
import type { Place } from './policy-state.ts';
import { type FreshState, type PolicyTerm, refusedForMs } from './policy-term.ts';
import { readPolicy } from './read-policy.ts';
import { tellOutcome } from './tell-outcome.ts';

/** An edit takes two or three. After so many, others have their turn. */
const mostSteps = 8;

export async function syncPolicy(
  term: PolicyTerm,
  ref: PolicyRef,
  context: ReconcileContext,
  run: Pick<PacedRun, 'write' | 'deletes'>,
): Promise<ReconcileResult | undefined> {
  const { member } = term.options;
  const kind = term.kindOf(ref);
  // A change of the member adds all keys again.
  if (kind === undefined || !isRead(member, ref) || !member.namespaces.isSynced) return undefined;
  await term.definitions.recent(kind);
  let fresh: FreshState | undefined;
  let isWritten = false;
  for (let count = 1; count <= mostSteps; count++) {
    context.signal.throwIfAborted();
    const step = nextStep(term, ref, kind, fresh, isWritten);
    if (step.do === 'rest') return rest(term, ref, step, context);
    pace(run, step, member.clusterID);
    if (step.do === 'read') fresh = await readFresh(term, ref, kind);
    else {
      await applied(term, ref, kind, step, fresh, context);
      // What was read holds until this leader writes the policy.
      if (step.do === 'record' || step.do === 'forget') continue;
      fresh = undefined;
      isWritten = step.do !== 'remove';
    }
  }
  return { requeueAfterMs: 0 };
}

/**
 * A record without a write of the policy is about an edit in the target, or about a deletion. Such a record follows
 * a read. The run waits before the read, because it would have to read again after it has waited.
 */
function pace(
  run: Pick<PacedRun, 'write' | 'deletes'>,
  step: Exclude<Step, { readonly do: 'rest' }>,
  clusterID: string,
): void {
  if (step.do === 'create' || step.do === 'replace') run.write([step.source]);
  else if (step.do === 'record' || step.do === 'read') run.write([clusterID]);
  else run.deletes(clusterID);
}

/** What the caches and own writes, or a fresh read, say that is to be done next. */
export function nextStep(
  term: PolicyTerm,
  ref: PolicyRef,
  kind: PolicyKind,
  fresh?: FreshState,
  isWritten = false,
): Step {
  const { retentionMs } = term.options.settings;
  return compilePolicy({
    target: term.target(ref, kind, fresh, isWritten),
    others: term.others(ref),
    limit: term.limitOf(ref),
    nowMs: term.now.nowMs,
    retentionMs,
  });
}

async function applied(
  term: PolicyTerm,
  ref: PolicyRef,
  kind: PolicyKind,
  step: Exclude<Step, { readonly do: 'rest' }>,
  fresh: FreshState | undefined,
  context: ReconcileContext,
): Promise<void> {
  const key = policyKey(ref);
  const sighting = term.sightings.get(key);
  await applyStep(term, ref, kind, step, fresh, context);
  // It counts once. A newer one may have come meanwhile.
  if (step.do !== 'forget' && term.sightings.get(key) === sighting) term.sightings.delete(key);
}

async function rest(
  term: PolicyTerm,
  ref: PolicyRef,
  { outcome }: Extract<Step, { readonly do: 'rest' }>,
  context: ReconcileContext,
): Promise<ReconcileResult | undefined> {
  const waitMs = outcome && (await tellOutcome(term, ref, outcome, context));
  if (waitMs !== undefined) return { requeueAfterMs: waitMs };
  if (isHalfServed(term, ref)) return { requeueAfterMs: definitionMs };
  const refusal = term.refusals.get(policyKey(ref));
  if (refusal === undefined) return undefined;
  if (outcome?.reason !== 'RejectedByServer') {
    // The version that was refused is not wanted any more.
    term.refusals.delete(policyKey(ref));
    return undefined;
  }
  const leftMs = refusal.atMs + refusedForMs - term.now.monotonicMs;
  return { requeueAfterMs: Math.max(1000, leftMs) };
}

/** `Definitions` reads a CRD again after this time. */
const definitionMs = 30_000;

/** A CRD can be deleted and created again without a gap in the watch, so that no change tells that it is back. */
function isHalfServed(term: PolicyTerm, ref: PolicyRef): boolean {
  const kind = term.kindOf(ref);
  return (
    kind !== undefined &&
    servesKind(term.options.member, ref) === true &&
    !term.placeOf(ref, kind).isServed
  );
}

/**
 * The policy first: if it is absent, and its collection, CRD and namespace are there after that, it did not go with
 * one of them. Those three are the same for many policies.
 */
async function readFresh(term: PolicyTerm, ref: PolicyRef, kind: PolicyKind): Promise<FreshState> {
  const { client } = term.options.member;
  const { namespace, name } = ref;
  const found = await orMissing(() => client.get(pathOfPolicy(kind, namespace, name)));
  const path = collectionOf(kind, namespace);
  const [response, definition, within] = await Promise.all([
    term.reads.read(path, () => client.request({ method: 'GET', path, query: { limit: '1' } })),
    term.reads.read(idOfKind(kind), () => term.definitions.read(kind)),
    namespaceOf(term, kind, namespace),
  ]);
  if (response.status !== 200 && response.status !== 404) {
    throw new KubeStatusError(term.options.member.clusterID, `list ${path}`, response);
  }
  const isServed = response.status === 200 && definition.state === 'served';
  return {
    object: found === undefined ? undefined : readPolicy(found),
    place: {
      isServed,
      crdUID: definition.state === 'served' ? definition.uid : undefined,
      ...within,
    },
  };
}

async function namespaceOf(
  { options, reads }: PolicyTerm,
  { isNamespaced }: PolicyKind,
  name: string,
): Promise<Pick<Place, 'namespace' | 'namespaceUID'>> {
  if (!isNamespaced) return { namespace: 'open', namespaceUID: '' };
  const path = kubePath`/api/v1/namespaces/${name}`;
  const sent = await reads.read(path, () =>
    orMissing(() => options.member.client.get<Namespace>(path)),
  );
  if (sent === undefined) return { namespace: 'missing', namespaceUID: '' };
  const { metadata, status } = readNamespace(sent);
  const isClosing = metadata.deletionTimestamp !== undefined || status?.phase === 'Terminating';
  return { namespace: isClosing ? 'closing' : 'open', namespaceUID: metadata.uid ?? '' };
}

async function orMissing<T>(get: () => Promise<T>): Promise<T | undefined> {
  try {
    return await get();
  } catch (error) {
    if (error instanceof KubeStatusError && error.status === 404) return undefined;
    throw asConflict(error);
  }
}

// Applies one step of the compiler to the target: writes the policy or its record, or deletes one of them.

import { HansaError } from '../../core/errors/error.ts';
import { KubeStatusError } from '../../core/kube/kube-errors.ts';
import type { ReconcileContext } from '../../core/reconcile/controller.ts';
import { asConflict } from '../copies/sync-term.ts';
import { writerOf, type Written } from '../fencing/fenced-writer.ts';
import { policyAnnotation, replicaAnnotation, versionAnnotation } from '../names.ts';
import type { Step } from './compile-policy.ts';
import type { PolicyContent } from './policy-content.ts';
import { policyKey } from './policy-keys.ts';
import { apiVersionOf, collectionOf, pathOfPolicy, type PolicyKind } from './policy-kinds.ts';
import { policyIn } from './policy-member.ts';
import {
  pathOfRecord,
  readRecord,
  recordObject,
  recordsPath,
  sentRecord,
} from './policy-records.ts';
import { type PolicyRef, recordNameOf } from './policy-ref.ts';
import type { HeldRecord, Version } from './policy-state.ts';
import type { FreshState, PolicyTerm } from './policy-term.ts';
import { type CachedPolicy, readPolicy, readWhole, textOfWritten } from './read-policy.ts';

type WritingStep = Exclude<Step, { readonly do: 'rest' | 'read' }>;

/** Rejects with HANSA_CONFLICT where a write lost a race. */
export async function applyStep(
  term: PolicyTerm,
  ref: PolicyRef,
  kind: PolicyKind,
  step: WritingStep | { readonly do: 'read' },
  fresh: FreshState | undefined,
  context: ReconcileContext,
): Promise<void> {
  const decided = fresh === undefined ? term.policies.live(policyKey(ref)) : fresh.object;
  switch (step.do) {
    case 'create':
      return create(term, ref, kind, step, context);
    case 'replace':
      return replace(term, ref, kind, step, decided, context);
    case 'remove':
      return remove(term, ref, kind, decided?.held.resourceVersion, context);
    case 'record':
      return writeRecord(term, ref, step.record, context);
    case 'forget':
      return forgetRecord(term, ref, context);
    default:
  }
}

type Sending = Extract<Step, { readonly do: 'create' | 'replace' }>;

async function create(
  term: PolicyTerm,
  ref: PolicyRef,
  kind: PolicyKind,
  { version, source }: Sending,
  context: ReconcileContext,
): Promise<void> {
  const { namespace, name } = ref;
  const content = contentFrom(term, ref, version, source);
  const object: Written = {
    ...content.fields,
    apiVersion: apiVersionOf(kind),
    kind: kind.kind,
    metadata: {
      name,
      ...(kind.isNamespaced && { namespace }),
      labels: content.labels,
      annotations: {
        ...content.annotations,
        [policyAnnotation]: 'true',
        [replicaAnnotation]: version.stamp.clusterID,
        [versionAnnotation]: textOfWritten(version),
      },
    },
  };
  await sent(term, ref, version, undefined, () =>
    writerOf(term.options.member.client, context).create(collectionOf(kind, namespace), object),
  );
}

/**
 * Builds on the policy that was decided about, without reading it again. The API server refuses the write where the
 * policy has another version or UID by now, so no edit of a user is lost: the next run decides about that edit.
 * Admission compares the epoch with that of the stored policy and that of the Lease. The API server keeps the managers
 * of fields where a write has none.
 */
async function replace(
  term: PolicyTerm,
  ref: PolicyRef,
  kind: PolicyKind,
  { version, source }: Sending,
  decided: CachedPolicy | undefined,
  context: ReconcileContext,
): Promise<void> {
  const { client } = term.options.member;
  const content = contentFrom(term, ref, version, source);
  const path = pathOfPolicy(kind, ref.namespace, ref.name);
  const live =
    decided?.rest === undefined
      ? readWhole(await readAs(term, path, decided?.held.resourceVersion))
      : { ...decided, rest: decided.rest };
  const { labels, annotations, ...metadata } = live.rest.metadata;
  const { status } = live.rest;
  const { name, namespace } = live.metadata;
  const object = {
    ...content.fields,
    ...(status !== undefined && { status }),
    apiVersion: apiVersionOf(kind),
    kind: kind.kind,
    metadata: {
      ...metadata,
      name,
      ...(namespace !== undefined && { namespace }),
      labels: { ...content.labels, ...labels },
      annotations: {
        ...content.annotations,
        ...annotations,
        [versionAnnotation]: textOfWritten(version),
      },
    },
  };
  await sent(term, ref, version, live, () =>
    writerOf(client, context).replace<Written>(path, object, live),
  );
}

/** The content of a version, of the cache of the member that has it. */
function contentFrom(
  { options }: PolicyTerm,
  ref: PolicyRef,
  { versionHash }: Version,
  source: string,
): PolicyContent {
  const member = options.members.get(source);
  const found = member && policyIn(member, ref);
  if (found?.content !== undefined && found.held.hash === versionHash) return found.content;
  throw changedMeanwhile(`the policy in ${source}`);
}

/** The object as it is now. Rejects where it is not the version that was decided about. */
async function readAs(
  { options }: PolicyTerm,
  path: string,
  decided: string | undefined,
): Promise<Written> {
  try {
    const live = await options.member.client.get<Written>(path);
    if (live.metadata.resourceVersion === decided) return live;
  } catch (error) {
    throw asConflict(error);
  }
  throw changedMeanwhile(path);
}

const changedMeanwhile = (what: string): HansaError =>
  new HansaError('HANSA_CONFLICT', `Cannot write the policy: ${what} changed meanwhile.`);

/** The API server refuses what breaks its schema (400, 422), what is too large, and what its webhooks deny (403). */
const refusing: ReadonlySet<number> = new Set([400, 403, 413, 422]);

async function sent(
  term: PolicyTerm,
  ref: PolicyRef,
  { stamp }: Version,
  base: CachedPolicy | undefined,
  write: () => Promise<Written>,
): Promise<void> {
  const key = policyKey(ref);
  try {
    const answer = readPolicy(await write());
    term.policies.wrote(key, answer, base);
    term.answers.set(key, answer.held.resourceVersion);
    term.refusals.delete(key);
  } catch (error) {
    term.policies.forget(key);
    if (!(error instanceof KubeStatusError) || !refusing.has(error.status)) throw asConflict(error);
    const message = error.serverMessage;
    term.refusals.set(key, { stamp, message, atMs: term.now.monotonicMs });
  }
}

async function remove(
  term: PolicyTerm,
  ref: PolicyRef,
  kind: PolicyKind,
  decided: string | undefined,
  context: ReconcileContext,
): Promise<void> {
  const key = policyKey(ref);
  const path = pathOfPolicy(kind, ref.namespace, ref.name);
  const live = await readAs(term, path, decided);
  term.policies.deletes(key, readPolicy(live));
  try {
    await writerOf(term.options.member.client, context).remove(path, live);
  } catch (error) {
    term.policies.forget(key);
    throw asConflict(error);
  }
}

export async function writeRecord(
  term: PolicyTerm,
  ref: PolicyRef,
  held: HeldRecord,
  context: ReconcileContext,
): Promise<void> {
  const name = recordNameOf(ref);
  const live = term.records.live(name);
  const object = sentRecord(recordObject(ref, held));
  const writer = writerOf(term.options.member.client, context);
  try {
    const answer =
      live === undefined
        ? await writer.create<Written>(recordsPath, object)
        : await writer.replace<Written>(pathOfRecord(name), object, sentRecord(live));
    term.records.wrote(name, readRecord(answer), live);
  } catch (error) {
    term.records.forget(name);
    throw asConflict(error);
  }
}

async function forgetRecord(
  term: PolicyTerm,
  ref: PolicyRef,
  context: ReconcileContext,
): Promise<void> {
  const name = recordNameOf(ref);
  const live = term.records.live(name);
  if (live === undefined) return;
  term.records.deletes(name, live);
  try {
    const writer = writerOf(term.options.member.client, context);
    await writer.remove(pathOfRecord(name), sentRecord(live));
    term.toldMs.delete(name);
    term.answers.delete(policyKey(ref));
  } catch (error) {
    term.records.forget(name);
    throw asConflict(error);
  }
}

// Validates metadata of new and changed objects, with the messages of kube-apiserver
// (apimachinery/pkg/api/validation/objectmeta.go). Its input comes from `coerceMetadata`, so the
// types are right.

import { checkManagerName } from '../fields/writer-name.ts';
import type { Kind } from '../kind.ts';
import type { ManagedFieldsEntry, ObjectMeta } from '../object.ts';
import { checkOwners } from './owner-references.ts';
import {
  checkLabelValue,
  checkLabel,
  checkName,
  checkQualifiedName,
  maskTrailingDash,
} from './names.ts';
import {
  type FieldError,
  forbidden,
  invalid,
  mostErrors,
  required,
  tooLong,
} from '../schema/field-error.ts';
import { compareBytes, quoteGo } from '../schema/go-text.ts';
import { agentNameRule, isAgentName } from '../values/agent-name.ts';
import { TrustDomain } from '../values/trust-domain.ts';

type Metadata = Partial<Omit<ObjectMeta, 'managedFields'>> & {
  readonly namespace?: string;
  readonly managedFields?: readonly Partial<ManagedFieldsEntry>[];
};

/** Kubernetes' limit on the names and values of all annotations of an object. */
export const maxAnnotationsBytes = 256 * 1024;

export function annotationsBytes(annotations: Metadata['annotations']): number {
  let bytes = 0;
  for (const key in annotations) {
    bytes += Buffer.byteLength(key) + Buffer.byteLength(annotations[key] ?? '');
  }
  return bytes;
}

export function validateNewMetadata(kind: Kind, metadata: Metadata): FieldError[] {
  const errors: FieldError[] = [];
  checkNames(kind, metadata, errors);
  checkCommon(metadata, errors);
  return errors;
}

/** What is asked of all metadata, new or changed. */
function checkCommon(metadata: Metadata, errors: FieldError[]): void {
  if (metadata.namespace !== undefined && metadata.namespace !== '') {
    errors.push(forbidden('metadata.namespace', 'not allowed on this type'));
  }
  if ((metadata.generation ?? 0) < 0) {
    errors.push(
      invalid('metadata.generation', metadata.generation, 'must be greater than or equal to 0'),
    );
  }
  checkLabels(metadata.labels, errors);
  checkAnnotations(metadata.annotations, errors);
  checkOwners(metadata.ownerReferences, errors);
  checkFinalizers(metadata.finalizers, errors);
  checkManagedFields(metadata.managedFields, errors);
}

function checkNames(kind: Kind, metadata: Metadata, errors: FieldError[]): void {
  const { generateName, name } = metadata;
  if (generateName !== undefined && generateName !== '') {
    const sample = maskTrailingDash(generateName);
    for (const message of nameErrors(kind, sample)) {
      errors.push(invalid('metadata.generateName', generateName, message));
    }
  }
  if (name === undefined || name === '') {
    errors.push(required('metadata.name', 'name or generateName is required'));
    return;
  }
  for (const message of nameErrors(kind, name))
    errors.push(invalid('metadata.name', name, message));
}

function nameErrors(kind: Kind, name: string): readonly string[] {
  if (kind.singleton !== undefined && name !== kind.singleton) {
    return [`must be ${quoteGo(kind.singleton)}: there is only one ${kind.kind}`];
  }
  if (kind.reservedNames?.includes(name) === true) return ['is reserved'];
  if (kind.names === 'dns-subdomain') return checkName(name);
  if (kind.names === 'dns-label') return checkLabel(name);
  if (kind.names === 'agent') return isAgentName(name) ? [] : [`must have ${agentNameRule}`];
  const problem = TrustDomain.problem(name);
  return problem === undefined ? [] : [`must be a trust domain: ${problem}`];
}

function checkLabels(labels: Metadata['labels'], errors: FieldError[]): void {
  for (const key in labels) {
    if (errors.length >= mostErrors) return;
    for (const message of checkQualifiedName(key)) {
      errors.push(invalid('metadata.labels', key, message));
    }
    const value = labels[key] ?? '';
    for (const message of checkLabelValue(value)) {
      errors.push(invalid('metadata.labels', value, message));
    }
  }
}

function checkAnnotations(annotations: Metadata['annotations'], errors: FieldError[]): void {
  for (const key in annotations) {
    if (errors.length >= mostErrors) return;
    for (const message of checkQualifiedName(key.toLowerCase())) {
      errors.push(invalid('metadata.annotations', key, message));
    }
  }
  if (annotationsBytes(annotations) > maxAnnotationsBytes)
    errors.push(tooLong('metadata.annotations', maxAnnotationsBytes));
}

function checkFinalizers(finalizers: readonly string[] | undefined, errors: FieldError[]): void {
  if (finalizers === undefined) return;
  for (const finalizer of finalizers) {
    if (errors.length >= mostErrors) return;
    for (const message of checkQualifiedName(finalizer)) {
      errors.push(invalid('metadata.finalizers', finalizer, message));
    }
  }
  if (finalizers.includes('orphan') && finalizers.includes('foregroundDeletion')) {
    const detail = 'finalizer orphan and foregroundDeletion cannot be both set';
    errors.push(invalid('metadata.finalizers', finalizers, detail));
  }
}

const maxSubresourceBytes = 256;

function checkManagedFields(entries: Metadata['managedFields'], errors: FieldError[]): void {
  for (const [i, entry] of (entries ?? []).entries()) {
    if (errors.length >= mostErrors) return;
    const path = `metadata.managedFields[${i}]`;
    const { operation, manager, subresource } = entry;
    const fieldsType: string | undefined = entry.fieldsType;
    if (operation !== 'Apply' && operation !== 'Update') {
      errors.push(invalid(`${path}.operation`, operation ?? '', 'must be `Apply` or `Update`'));
    }
    if (fieldsType !== undefined && fieldsType !== '' && fieldsType !== 'FieldsV1') {
      errors.push(invalid(`${path}.fieldsType`, fieldsType, 'must be `FieldsV1`'));
    }
    errors.push(...checkManagerName(manager ?? '', `${path}.manager`));
    if (Buffer.byteLength(subresource ?? '') > maxSubresourceBytes) {
      errors.push(tooLong(`${path}.subresource`, maxSubresourceBytes));
    }
  }
}

const immutable = [
  ['name', ''],
  ['namespace', ''],
  ['uid', ''],
  ['creationTimestamp', null],
  ['deletionTimestamp', null],
  ['deletionGracePeriodSeconds', null],
] as const;

/**
 * kube-apiserver asks about changed metadata in two layers: what holds of all metadata and what
 * holds of a change, and then once more what holds of a change. A cause that two of them find is
 * listed twice, and so it is here; the sentence of the refusal says it once.
 */
export function validateChangedMetadata(metadata: Metadata, old: Metadata): FieldError[] {
  const first: FieldError[] = [];
  checkPathSegments(metadata, first);
  checkCommon(metadata, first);
  const change = checkChange(metadata, old);
  return [...first, ...change, ...change];
}

/** The name itself cannot change; but what a client sends must at least fit into a URL. */
function checkPathSegments({ generateName, name }: Metadata, errors: FieldError[]): void {
  for (const illegal of ['/', '%']) {
    if (generateName?.includes(illegal) !== true) continue;
    errors.push(invalid('metadata.generateName', generateName, `may not contain '${illegal}'`));
  }
  if (name === undefined || name === '') {
    errors.push(required('metadata.name', 'name or generateName is required'));
  }
}

function checkChange(metadata: Metadata, old: Metadata): FieldError[] {
  const errors: FieldError[] = [];
  if (old.deletionTimestamp !== undefined) checkNoNewFinalizers(metadata, old, errors);
  if (metadata.resourceVersion === undefined || metadata.resourceVersion === '') {
    errors.push(invalid('metadata.resourceVersion', '', 'must be specified for an update'));
  }
  if ((metadata.generation ?? 0) < (old.generation ?? 0)) {
    const generation = metadata.generation ?? 0;
    errors.push(invalid('metadata.generation', generation, 'must not be decremented'));
  }
  for (const [name, empty] of immutable) {
    if ((metadata[name] ?? empty) === (old[name] ?? empty)) continue;
    errors.push(invalid(`metadata.${name}`, metadata[name] ?? empty, 'field is immutable'));
  }
  checkLabels(metadata.labels, errors);
  checkAnnotations(metadata.annotations, errors);
  checkOwners(metadata.ownerReferences, errors);
  checkManagedFields(metadata.managedFields, errors);
  return errors;
}

function checkNoNewFinalizers(metadata: Metadata, old: Metadata, errors: FieldError[]): void {
  const known = new Set(old.finalizers);
  const added = [...new Set(metadata.finalizers)].filter((finalizer) => !known.has(finalizer));
  if (added.length === 0) return;
  const list = `[]string{${added.toSorted(compareBytes).map(quoteGo).join(', ')}}`;
  errors.push(
    forbidden(
      'metadata.finalizers',
      `no new finalizers can be added if the object is being deleted, found new finalizers ${list}`,
    ),
  );
}

/** What kube-apiserver warns of (in a Warning header) when finalizers without a domain are added. */
export function finalizerWarnings(metadata: Metadata, old?: Metadata): string[] {
  const known = new Set(old?.finalizers);
  const warnings: string[] = [];
  for (const finalizer of [...new Set(metadata.finalizers)].toSorted(compareBytes)) {
    if (known.has(finalizer)) continue;
    const start = `metadata.finalizers: ${quoteGo(finalizer)}: `;
    for (const message of checkQualifiedName(finalizer)) warnings.push(`${start}${message}`);
    if (finalizer.includes('/')) continue;
    if (['orphan', 'foregroundDeletion', 'kubernetes'].includes(finalizer)) continue;
    const including = finalizer.includes('.') ? ' including a path (/)' : '';
    warnings.push(
      `${start}prefer a domain-qualified finalizer name${including} to avoid accidental conflicts with other finalizer writers`,
    );
  }
  return warnings;
}

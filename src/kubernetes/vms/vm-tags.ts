// Reads from the tags of a VirtualMachine which Service it is a backend of, and which federated Service that
// one belongs to. Pure.

import { createHash } from 'node:crypto';
import type { VirtualMachine } from '../../api/kinds/virtual-machine.ts';
import { excerpt } from '../../api/values/trust-domain.ts';
import { serviceTags } from '../names.ts';
import type { ObjectMeta } from '../objects.ts';
import {
  type AnnotatedRef,
  federatedRefOf,
  isRef,
  isServiceName,
} from '../services/federated-name.ts';

export interface VmProblem {
  readonly reason: string;
  readonly message: string;
}

export type Tagged = Pick<VirtualMachine, 'metadata' | 'spec'>;

/** The name of its Service. Undefined for a machine without the tag. */
export function serviceOfVm(
  { metadata, spec }: Tagged,
  systemNamespace: string,
): string | VmProblem | undefined {
  const { tags = {}, id = metadata.name } = spec;
  const found = serviceTags.flatMap((key) => {
    const value = tags[key];
    return value === undefined ? [] : [{ key, value }];
  });
  const [first, ...others] = found;
  if (first === undefined) return undefined;
  const other = others.find(({ value }) => value !== first.value);
  if (other !== undefined) {
    const message = `The tags ${first.key} and ${other.key} name different Services. Remove one of them.`;
    return { reason: 'ConflictingTags', message };
  }
  const { key, value } = first;
  if (value !== '' && !isServiceName(value)) {
    const message = `The tag ${key} has the value ${JSON.stringify(excerpt(value))}, which cannot be the name of a Service. Use at most 63 lower-case letters, digits and hyphens, with a letter first.`;
    return { reason: 'IllegalName', message };
  }
  if ((metadata as ObjectMeta).namespace === systemNamespace) {
    const message = `The namespace ${systemNamespace} holds the copies of global federated Services. Use another namespace for the machine.`;
    return { reason: 'SystemNamespace', message };
  }
  return value === '' ? nameOfID(id) : value;
}

/** The federated Service that its tags name. A namespaced one with the name of the Service would compete with it. */
export function federationOfVm(
  { metadata, spec }: Tagged,
  service: string,
  systemNamespace: string,
): AnnotatedRef | VmProblem | undefined {
  const { namespace = '' } = metadata as ObjectMeta;
  const { tags = {} } = spec;
  const meta = { name: metadata.name, namespace, annotations: tags };
  const found = federatedRefOf(meta, systemNamespace);
  if (found === undefined) return undefined;
  if (!isRef(found)) {
    return {
      reason: found.reason,
      message: `Its tags count as annotations of its Service. ${found.message}`,
    };
  }
  if (found.namespace === namespace && found.name === service) {
    const message = `The federated Service ${namespace}/${service} would have the name of its own Service. Give one of them another name.`;
    return { reason: 'NameOfService', message };
  }
  return found;
}

export function isVmProblem(value: unknown): value is VmProblem {
  return typeof value === 'object' && value !== null && 'reason' in value;
}

/** So long that no two IDs of a namespace share it by chance. */
const hashLength = 10;
const hashed = new RegExp(`-[0-9a-f]{${hashLength}}$`);
const mostLetters = 63 - hashLength - 1;

/**
 * A legal name for each ID. An ID that is legal stays as it is. Others get the hash of the ID at the end. So
 * does one that looks as if it had a hash, because it could be the name of another ID.
 */
export function nameOfID(id: string): string {
  if (isServiceName(id) && !hashed.test(id)) return id;
  const hash = createHash('sha256').update(id).digest('hex').slice(0, hashLength);
  const plain = id.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-');
  const begin = /^[a-z]/.test(plain) ? plain : `vm-${plain.replace(/^-/, '')}`;
  return `${begin.slice(0, mostLetters).replace(/-+$/, '')}-${hash}`;
}

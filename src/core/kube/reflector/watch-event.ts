// Parses objects and watch events of an API server into the types that the reflector works with.

import { isRecord } from '../../json/is-record.ts';
import { nestsTooDeeply, parseBoundedJson } from '../../json/strict-json.ts';
import type { KubeObject } from '../kube-client.ts';
import { isKubeObject } from '../kube-objects.ts';
import type { VersionedObject } from './object-cache.ts';
import { isResourceVersion } from './resource-version.ts';

/** Marks the bookmark after the initial events (`sendInitialEvents`). */
const initialEventsEnd = 'k8s.io/initial-events-end';

/** Parsing so few bytes blocks nothing, whatever they are. */
const shortBytes = 64 * 1024;

export type WatchEvent<T> =
  | (VersionedObject<T> & {
      readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
      /** Of the event as it came. */
      readonly bytes: number;
    })
  | { readonly type: 'BOOKMARK'; readonly version: string; readonly isInitialEnd: boolean }
  | { readonly type: 'ERROR'; readonly code: number; readonly status: unknown };

/** The server sent something that is no object or event of Kubernetes. */
export class MalformedError extends Error {
  override readonly name = 'MalformedError';
}

/** Undefined for an object without a name or a version. Does not copy. */
export function versionedObject<T extends KubeObject>(
  value: unknown,
): VersionedObject<T> | undefined {
  if (!isKubeObject(value)) return undefined;
  const { name, namespace = '', resourceVersion } = value['metadata'] as Record<string, unknown>;
  if (!isName(name) || !isResourceVersion(resourceVersion)) return undefined;
  if (namespace !== '' && !isName(namespace)) return undefined;
  const key = namespace === '' ? name : `${namespace}/${name}`;
  return { key, version: resourceVersion, object: value as unknown as T };
}

/** Throws a MalformedError. */
export function parseWatchEvent<T extends KubeObject>(
  line: Buffer,
  maxValues: number,
): WatchEvent<T> {
  const event = parsed(line, maxValues);
  if (!isRecord(event)) throw new MalformedError('an event is no object');
  const { type, object } = event;
  switch (type) {
    case 'ADDED':
    case 'MODIFIED':
    case 'DELETED': {
      const versioned = versionedObject<T>(object);
      if (versioned === undefined) {
        throw new MalformedError(`the object of an event ${type} has no name or resourceVersion`);
      }
      return { type, ...versioned, bytes: line.length };
    }
    case 'BOOKMARK':
      return bookmarkOf(object);
    case 'ERROR': {
      const code = isRecord(object) ? object['code'] : undefined;
      const isStatus = Number.isInteger(code) && (code as number) >= 400 && (code as number) < 600;
      return { type, code: isStatus ? (code as number) : 500, status: object };
    }
    default:
      throw new MalformedError('an event has an unknown type');
  }
}

function bookmarkOf(object: unknown): WatchEvent<never> {
  const metadata = isRecord(object) ? object['metadata'] : undefined;
  const version = isRecord(metadata) ? metadata['resourceVersion'] : undefined;
  if (!isRecord(metadata) || !isResourceVersion(version)) {
    throw new MalformedError('a bookmark has no resourceVersion');
  }
  const { annotations } = metadata;
  const isInitialEnd = isRecord(annotations) && annotations[initialEventsEnd] === 'true';
  return { type: 'BOOKMARK', version, isInitialEnd };
}

function parsed(line: Buffer, maxValues: number): unknown {
  // Each value takes a byte, so a short line has not too many.
  const isShort = line.length <= Math.min(shortBytes, maxValues);
  try {
    const value: unknown = isShort
      ? JSON.parse(line.toString())
      : parseBoundedJson(line, maxValues);
    if (!isShort || !nestsTooDeeply(value)) return value;
  } catch {
    // The error of JSON.parse quotes the text, which may be a secret.
  }
  throw new MalformedError('an event is not JSON, nests too deeply, or has too many values');
}

/** A name with a slash could have the key of another object. */
function isName(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= 253 && !value.includes('/');
}

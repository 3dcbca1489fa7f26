// What the steps of an examination share: limits of requests, and tolerant readers of answers.

import type { Cluster } from '../../api/kinds/cluster.ts';
import { HansaError } from '../../core/errors/error.ts';
import { isRecord } from '../../core/json/is-record.ts';
import { parseBoundedJson } from '../../core/json/strict-json.ts';
import type { KubeResponse } from '../../core/kube/kube-client.ts';

/** Of one request: an operator waits. Answers about the site itself and discovery documents are small. */
export const askLimits = { timeoutMs: 5_000, maxBytes: 256 * 1024, isQuoted: true } as const;

/** The command that shows the spec. */
export const manifestOf = ({ metadata }: Cluster): string =>
  `hansa get cluster ${metadata.name} -o yaml`;

/** Returns an expected error, to report it as a finding. */
export async function tried<T>(work: () => Promise<T>): Promise<T | HansaError> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof HansaError) return error;
    throw error;
  }
}

export function jsonOf({ body }: KubeResponse): unknown {
  try {
    return parseBoundedJson(body);
  } catch {
    return undefined;
  }
}

/** The field at this path; undefined where there is none. */
export function at(value: unknown, ...path: readonly string[]): unknown {
  return path.reduce((found, field) => (isRecord(found) ? found[field] : undefined), value);
}

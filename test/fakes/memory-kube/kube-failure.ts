// The failures of the in-memory API server, as the Status objects that kube-apiserver sends.

import type { KubeResponse } from '../../../src/core/kube/kube-client.ts';

export interface FailureDetails {
  readonly retryAfterSeconds?: number;
  readonly causes?: readonly {
    readonly reason: string;
    readonly message?: string;
    readonly field?: string;
  }[];
}

export class KubeFailure extends Error {
  override readonly name = 'KubeFailure';
  readonly status: number;
  readonly reason: string;
  readonly details: FailureDetails;

  constructor(status: number, reason: string, message: string, details: FailureDetails = {}) {
    super(message);
    this.status = status;
    this.reason = reason;
    this.details = details;
  }

  get object(): object {
    const { status: code, reason, message, details } = this;
    return {
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Failure',
      message,
      ...(reason !== '' && { reason }),
      ...(Object.keys(details).length > 0 && { details }),
      code,
    };
  }

  get response(): KubeResponse {
    const { retryAfterSeconds } = this.details;
    return jsonResponse(
      this.status,
      this.object,
      retryAfterSeconds === undefined ? {} : { 'retry-after': String(retryAfterSeconds) },
    );
  }
}

export function jsonResponse(
  status: number,
  value: unknown,
  headers: KubeResponse['headers'] = {},
): KubeResponse {
  return {
    status,
    headers: { 'content-type': 'application/json', ...headers },
    body: Buffer.from(JSON.stringify(value)),
  };
}

/** `resource` as `services` or `leases.coordination.k8s.io`. */
export const notFound = (resource: string, name: string): KubeFailure =>
  new KubeFailure(404, 'NotFound', `${resource} "${name}" not found`);

export const alreadyExists = (resource: string, name: string): KubeFailure =>
  new KubeFailure(409, 'AlreadyExists', `${resource} "${name}" already exists`);

export const conflict = (resource: string, name: string, why: string): KubeFailure =>
  new KubeFailure(
    409,
    'Conflict',
    `Operation cannot be fulfilled on ${resource} "${name}": ${why}`,
  );

export const badRequest = (why: string): KubeFailure => new KubeFailure(400, 'BadRequest', why);

export const forbidden = (resource: string, name: string, why: string): KubeFailure =>
  new KubeFailure(403, 'Forbidden', `${resource} "${name}" is forbidden: ${why}`);

export function invalid(what: string, problems: readonly string[]): KubeFailure {
  const text = problems.length === 1 ? problems[0] : `[${problems.join(', ')}]`;
  return new KubeFailure(422, 'Invalid', `${what} is invalid: ${text}`);
}

export const expired = (why: string): KubeFailure => new KubeFailure(410, 'Expired', why);

export const tooLarge = (wanted: number, current: number): KubeFailure =>
  new KubeFailure(504, 'Timeout', `Too large resource version: ${wanted}, current: ${current}`, {
    causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
    retryAfterSeconds: 1,
  });

// Classifies why a fetch of a bundle failed, for status, metrics and alerts. Pure.

import { type ErrorCode, type HansaError, toHansaError } from '../../core/errors/error.ts';
import { brokenRule } from '../../core/identity/x509/rules.ts';
import { type BundleProblem, bundleProblem } from './accept-bundle.ts';
import type { FetchProblem } from '../client/fetch-bundle.ts';

export type FailureClass =
  | 'dns'
  | 'connect'
  | 'unreachable'
  | 'identity'
  | 'size'
  | FetchProblem
  | BundleProblem
  | 'internal';

export interface Failure {
  readonly class: FailureClass;
  readonly message: string;
  readonly code: ErrorCode;
}

/** The endpoint did not answer. */
export function isSilence(failure: Pick<Failure, 'class'>): boolean {
  return ['dns', 'connect', 'unreachable'].includes(failure.class);
}

/** The endpoint answered, but the site rejected the response. */
export function isRefusal(failure: Failure): boolean {
  return !isSilence(failure) && !['http', 'internal'].includes(failure.class);
}

/**
 * Why a fetch failed. An internal error has no details. Without a trust domain, the message has no
 * advice to ask the other operator.
 */
export function failureOf(caught: unknown, trustDomain?: string): Failure {
  const error = toHansaError(caught);
  const isRebuilt = trustDomain !== undefined && brokenRule(error) === 'unknown-authority';
  const remedy = isRebuilt ? rebuilt(trustDomain) : '';
  const message = `${error.message.slice(0, 1024 - remedy.length)}${remedy}`;
  return { class: failureClass(error), message, code: error.code };
}

/** Neither a retry nor a refresh resolves this failure. */
function rebuilt(trustDomain: string): string {
  return ` Ask its operator. If it lost its keys, bootstrap it again with its bundle or fingerprint: hansa trust bundle bootstrap ${trustDomain}.`;
}

function failureClass(error: HansaError): FailureClass {
  switch (error.code) {
    case 'HANSA_UNREACHABLE':
      return unreachableClass((error.cause as NodeJS.ErrnoException | undefined)?.code);
    case 'HANSA_TIMEOUT':
      return 'unreachable';
    case 'HANSA_CERTIFICATE_INVALID':
      return 'identity';
    case 'HANSA_UNAVAILABLE':
      return fetchProblem(error);
    case 'HANSA_TOO_LARGE':
      return 'size';
    case 'HANSA_BUNDLE_INVALID':
      return bundleProblem(error);
    default:
      return 'internal';
  }
}

function fetchProblem(error: HansaError): FetchProblem {
  const reason = error.details?.causes?.[0]?.reason;
  return reason === 'redirect' || reason === 'content-type' ? reason : 'http';
}

function unreachableClass(code: string | undefined): FailureClass {
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') return 'dns';
  if (code !== undefined && /^E(?:CONNREFUSED|HOSTUNREACH|NETUNREACH|TIMEDOUT)$/.test(code)) {
    return 'connect';
  }
  return 'unreachable';
}

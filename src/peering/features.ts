// What a site tells another about itself, in the handshake and with each heartbeat: which parts of the
// federation API it has, its optional features, and its endpoints. A site that sends none of it has the
// defaults. The capability report has the same lists.

import { createHash } from 'node:crypto';
import { parseSiteURL } from '../api/values/site-url.ts';
import { malformed, Message } from './message-reader.ts';

/** One place at which a site can be reached. */
export interface Endpoint {
  readonly name: string;
  readonly url: string;
}

/** The names that a site reports again with each heartbeat. */
export interface FeatureNames {
  /** Parts of the federation API beyond the handshake. */
  readonly capabilities: readonly string[];
  /** Optional features, by name. */
  readonly extensionSlugs: readonly string[];
}

export interface Features extends Partial<FeatureNames> {
  readonly endpoints?: readonly Endpoint[];
}

/**
 * The parts of the federation API that this version has, and what no longer works with a peer that lost
 * one, as a part of a sentence.
 */
const capabilities: ReadonlyMap<string, string> = new Map([
  ['announcements', 'it gets new bundles of this site up to one heartbeat later'],
  ['catalog', 'hansa peer catalog fails'],
  ['cluster-bundles', 'bundles of SPIRE servers are no longer exchanged'],
  ['grants', 'grants between the sites have no effect'],
  ['receipts', 'a rotation of authorities waits for its deadline'],
]);

export const ownCapabilities: readonly string[] = [...capabilities.keys()];

/** This version has no optional feature. */
export const ownExtensionSlugs: readonly string[] = [];

export const ownNames: FeatureNames = {
  capabilities: ownCapabilities,
  extensionSlugs: ownExtensionSlugs,
};

export function ownFeatures(advertiseURL: string): Features {
  return { ...ownNames, endpoints: [{ name: 'federation', url: advertiseURL }] };
}

/** Undefined for a capability of another version. */
export function effectOfLoss(capability: string): string | undefined {
  return capabilities.get(capability);
}

/** What both sites agreed on: the capabilities that both have, and the features of the other site. */
export function agreedFeatures({
  capabilities: told,
  extensionSlugs,
  endpoints,
}: Features): Features {
  return {
    ...(told && { capabilities: told.filter((each) => ownCapabilities.includes(each)) }),
    ...(extensionSlugs && { extensionSlugs }),
    ...(endpoints && { endpoints }),
  };
}

/** The same for the same names in any order. 128 bits: only two lists of one site are ever compared. */
export function hashOfNames({ capabilities: told, extensionSlugs }: FeatureNames): string {
  const text = JSON.stringify([told.toSorted(), extensionSlugs.toSorted()]);
  return createHash('sha256').update(text).digest().subarray(0, 16).toString('base64url');
}

/** As long as the text of `hashOfNames`. */
export const namesHash = /^[\w-]{22}$/;

const limits = { names: 64, endpoints: 16 } as const;

/** A name of a feature or an endpoint, as long as a DNS label. */
const featureName = /^[a-z0-9](?:[-a-z0-9.]{0,61}[a-z0-9])?$/;

/** The features that the other site tells. Names are short, and each occurs once. */
export function featuresIn(message: Message): Features {
  return {
    ...namesIn(message),
    ...message.optional('endpoints', (value) => {
      const endpoints = new Message({ value }).list('value', limits.endpoints, (item) => {
        const endpoint = new Message(item);
        const url = parseSiteURL(endpoint.text('url', /^https:\/\/\S{1,2040}$/));
        if (url === undefined) throw malformed('the url of an endpoint is not a valid https URL');
        return { name: endpoint.text('name', featureName), url: url.href };
      });
      refuseRepeated(
        'endpoints',
        endpoints.map(({ name }) => name),
      );
      return endpoints;
    }),
  };
}

/** Like `featuresIn`, for a message that must have the names. */
export function allNamesIn(message: Message): FeatureNames {
  return {
    capabilities: asNames(message, 'capabilities'),
    extensionSlugs: asNames(message, 'extensionSlugs'),
  };
}

function namesIn(message: Message): Partial<FeatureNames> {
  return {
    ...message.optional('capabilities', () => asNames(message, 'capabilities')),
    ...message.optional('extensionSlugs', () => asNames(message, 'extensionSlugs')),
  };
}

function asNames(message: Message, key: keyof FeatureNames): readonly string[] {
  const names = message.list(key, limits.names, (item) =>
    new Message({ [key]: item }).text(key, featureName),
  );
  refuseRepeated(key, names);
  return names;
}

function refuseRepeated(key: string, names: readonly string[]): void {
  if (new Set(names).size !== names.length) throw malformed(`a name occurs twice in ${key}`);
}

// What a site tells another about itself in the handshake: which parts of the federation API it has,
// its optional features, and its endpoints. A site that sends none of it has the defaults.

/** One place at which a site can be reached. */
export interface Endpoint {
  readonly name: string;
  readonly url: string;
}

export interface Features {
  /** Parts of the federation API beyond the handshake. */
  readonly capabilities?: readonly string[];
  /** Optional features, by name. */
  readonly extensionSlugs?: readonly string[];
  readonly endpoints?: readonly Endpoint[];
}

/** The parts of the federation API that this version has. */
export const ownCapabilities: readonly string[] = [
  'announcements',
  'catalog',
  'cluster-bundles',
  'grants',
  'receipts',
];

/** This version has no optional feature. */
export const ownExtensionSlugs: readonly string[] = [];

export function ownFeatures(advertiseURL: string): Features {
  return {
    capabilities: ownCapabilities,
    extensionSlugs: ownExtensionSlugs,
    endpoints: [{ name: 'federation', url: advertiseURL }],
  };
}

/** What both sites agreed on: the capabilities that both have, and the features of the other site. */
export function agreedFeatures({ capabilities, extensionSlugs, endpoints }: Features): Features {
  return {
    ...(capabilities && {
      capabilities: capabilities.filter((each) => ownCapabilities.includes(each)),
    }),
    ...(extensionSlugs && { extensionSlugs }),
    ...(endpoints && { endpoints }),
  };
}

// The configuration keys of the kubernetes plane. settings.ts turns their values into settings.

import { configKey, optionalConfigKey } from '../core/config/config-key.ts';
import { parseChoice, parseCount, parseDnsLabel } from '../core/config/config-values.ts';
import { HostnameTemplate, parseAnnotationPrefix } from './dns/hostnames.ts';
import { parseImage } from './spire/server-image.ts';
import { defaultDnsPrefix, defaultNamespace } from './names.ts';
import { defaultPolicyKinds, parsePolicyKinds, textOfKind } from './policies/policy-kinds.ts';

export const kubernetesKeys = {
  'kubernetes.namespace': configKey({
    placeholder: 'NAME',
    meaning:
      'The namespace of Hansa in all clusters of a cluster set: for Leases, Secrets and global copies of Services. It is the same for all sites of the set.',
    default: defaultNamespace,
    parse: parseDnsLabel,
  }),
  'kubernetes.leaseSeconds': configKey({
    placeholder: 'SECONDS',
    meaning:
      'How long a supervisor leads a member without renewing its Lease. Another one takes over after this time.',
    default: '15',
    parse: parseCount(5, 300),
  }),
  'kubernetes.unreachableSeconds': configKey({
    placeholder: 'SECONDS',
    meaning:
      'How long the objects of a member may be out of reach before the member counts as unreachable. The policy in Federation applies from then on.',
    default: '10',
    parse: parseCount(1, 3600),
  }),
  'kubernetes.multiClusterServices': configKey({
    placeholder: 'CHOICE',
    meaning:
      'Whether ServiceExports of the Multi-Cluster Services API export Services: on, or off where another program does that. It is the same for all sites of the set.',
    default: 'on',
    parse: parseChoice(['on', 'off']),
  }),
  'kubernetes.dns.hostname': optionalConfigKey({
    placeholder: 'TEMPLATE',
    meaning:
      'The DNS name of each federated Service, such as {name}.{namespace}.fed.example. The namespace of a global one is that of its copies. It is the same for all sites of the set.',
    withoutIt: 'Only Services with a name by hand have one.',
    parse: (text) => HostnameTemplate.parse(text),
    format: ({ text }) => text,
  }),
  'kubernetes.dns.annotationPrefix': configKey({
    placeholder: 'PREFIX',
    meaning: 'The prefix of the annotations that ExternalDNS reads (its --annotation-prefix).',
    default: defaultDnsPrefix,
    parse: parseAnnotationPrefix,
  }),
  'kubernetes.dns.whenUnhealthy': configKey({
    placeholder: 'CHOICE',
    meaning:
      'What happens to the DNS name of a federated Service while none of its members has a reachable address: remove, or keep with the last addresses.',
    default: 'remove',
    parse: parseChoice(['remove', 'keep']),
  }),
  'kubernetes.policyKinds': configKey({
    placeholder: 'LIST',
    meaning:
      'The kinds of policies that are federated: GROUP/VERSION/RESOURCE/KIND, with :cluster for kinds without a namespace, and commas between them. An empty list turns federated policies off. It is the same for all sites of the set.',
    default: defaultPolicyKinds,
    parse: parsePolicyKinds,
    format: (kinds) => kinds.map(textOfKind).join(','),
  }),
  'kubernetes.policyRetentionHours': configKey({
    placeholder: 'HOURS',
    meaning:
      'How long a deleted policy is remembered after all members know of the deletion. A member that is restored from an older backup, or away for longer, does not bring deleted policies back, and its own ones that no other member knows are not spread. It is the same for all sites of the set.',
    default: '168',
    parse: parseCount(1, 8760),
  }),
  'kubernetes.spire.enabled': configKey({
    placeholder: 'CHOICE',
    meaning:
      'Whether the site operates the SPIRE servers of Clusters with spec.spire: true, or false.',
    default: 'false',
    parse: parseChoice(['true', 'false']),
  }),
  'kubernetes.spire.serverImage': configKey({
    placeholder: 'IMAGE',
    meaning: 'The image of the SPIRE servers that the site operates.',
    default: 'ghcr.io/spiffe/spire-server:1.12.4',
    parse: parseImage,
  }),
  'kubernetes.spire.sidecarImage': optionalConfigKey({
    placeholder: 'IMAGE',
    meaning:
      'The image of Hansa for the sidecar that hands relationships to SPIRE, in clusters without spire-controller-manager.',
    withoutIt: 'SPIRE gets relationships only where spire-controller-manager runs.',
    parse: parseImage,
    format: (image) => image,
  }),
};

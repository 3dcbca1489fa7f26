// The configuration keys of the auth plane. settings.ts turns their values into settings.

import { configKey, optionalConfigKey } from '../core/config/config-key.ts';
import {
  parseBytes,
  parseChoice,
  parseCount,
  parseDnsName,
  parsePath,
} from '../core/config/config-values.ts';

export const authKeys = {
  'auth.baseDomain': configKey({
    placeholder: 'NAME',
    meaning:
      'The base of the host names of TokenReview endpoints: api.CLUSTER.NAME, and api.NAME for the local cluster.',
    default: 'kube-fed.svc.cluster.local',
    parse: parseDnsName,
  }),
  'auth.credentialsDir': optionalConfigKey({
    placeholder: 'FOLDER',
    meaning: 'The folder of the files that Clusters name: CA certificates, tokens and keys.',
    withoutIt: 'Clusters cannot name files',
    parse: parsePath,
  }),
  'auth.inClusterDir': configKey({
    placeholder: 'FOLDER',
    meaning:
      'The folder of the credential that Kubernetes mounts into the Pod of the site, for Clusters with credential.inCluster.',
    default: '/var/run/secrets/kubernetes.io/serviceaccount',
    parse: parsePath,
  }),
  'auth.audience': optionalConfigKey({
    placeholder: 'AUDIENCE',
    meaning:
      'The audience of ServiceAccount tokens with which Pods may call the TokenReview endpoint.',
    withoutIt: 'hansa://TRUST-DOMAIN',
    parse: (text: string) => text,
  }),
  'auth.anonymous': configKey({
    placeholder: 'true|false',
    meaning: 'Whether programs on this machine may ask for reviews without a credential.',
    default: 'false',
    parse: parseChoice(['true', 'false']),
  }),
  'auth.callerReviewsPerSecond': configKey({
    placeholder: 'COUNT',
    meaning:
      'Token reviews per second of one caller at each replica. Further ones get 429 with Retry-After. 0 means no limit.',
    default: '10000',
    parse: parseCount(0, 10_000_000),
  }),
  'auth.clusterReviewsPerSecond': configKey({
    placeholder: 'COUNT',
    meaning:
      'Token reviews per second of one cluster at each replica, of all callers together. Further ones get 429 with Retry-After. 0 means no limit.',
    default: '50000',
    parse: parseCount(0, 10_000_000),
  }),
  'auth.validateV1': configKey({
    placeholder: 'true|false',
    meaning:
      'Whether the site serves the deprecated POST /validate, GET /clusters and GET /health.',
    default: 'true',
    parse: parseChoice(['true', 'false']),
  }),
  'auth.verdictCacheBytes': configKey({
    placeholder: 'SIZE',
    meaning:
      'Most memory for cached verdicts of token reviews. A verdict needs about 0.7Ki. The site checks a token again when its verdict had to make room.',
    default: '192Mi',
    parse: parseBytes(1024 * 1024, 4 * 1024 ** 3),
  }),
};

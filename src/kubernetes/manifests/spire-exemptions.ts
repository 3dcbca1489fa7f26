// What admission policies of a cluster set leave alone: the Services and the NetworkPolicy of a SPIRE server, which
// the SPIRE operator of the same site writes with the same account. They are no copies and have no epoch of the
// cluster set. Pure.

import { epochAnnotation, policyAnnotations } from '../names.ts';
import {
  adoptAnnotation,
  federationServiceName,
  selectorLabels,
  serverName,
  spireSiteAnnotation,
} from '../spire/spire-names.ts';
import { annotationOf, text } from './policy.ts';

/**
 * `hansa spire install` gives this right, in one namespace. The role of members does not have it, so a site without
 * that command gains nothing. With it, the site can replace the Pods behind these objects anyway.
 */
const operatesServer =
  'authorizer.group("apps").resource("statefulsets").namespace(request.namespace).check("create").allowed()';

const isNamed = (names: readonly string[]): string =>
  `(object == null ? oldObject : object).metadata.name in [${names.map(text).join(', ')}]`;

const hasSite = (object: 'object' | 'oldObject'): string =>
  `${annotationOf(object, spireSiteAnnotation)}.orValue("") != ""`;

/** Without marks of the cluster set: copies and federated policies stay fenced under any name. */
const isForeignToSet = (object: 'object' | 'oldObject'): string =>
  [epochAnnotation, ...policyAnnotations]
    .map((key) => `!${annotationOf(object, key)}.hasValue()`)
    .join(' && ');

const isMarked = [
  `(object == null || (${hasSite('object')} && ${isForeignToSet('object')}))`,
  // A user hands an object over by an annotation. The site may change it then, and not delete it.
  `(oldObject == null || ((${hasSite('oldObject')} || (request.operation == "UPDATE" && ${annotationOf('oldObject', adoptAnnotation)}.orValue("") == "true")) && ${isForeignToSet('oldObject')}))`,
].join(' && ');

/** Whether a selector, which is an optional map, selects no other Pods than those of the server. */
const selectsServer = (selector: string): string =>
  Object.entries(selectorLabels)
    .map(([key, value]) => `${selector}[?${text(key)}].orValue("") == ${text(value)}`)
    .join(' && ');

const notOf = (names: readonly string[], shape: string): string =>
  `!(${[isNamed(names), isMarked, `(object == null || (${shape}))`, operatesServer].join(' && ')})`;

/** For policies about Services and other kinds. */
export const notOfSpireServices = `request.resource.resource != "services" || ${notOf(
  [serverName, federationServiceName],
  [
    'object.spec.?type.orValue("ClusterIP") == "ClusterIP"',
    'object.spec.?externalIPs.orValue([]) == (oldObject == null ? [] : oldObject.spec.?externalIPs.orValue([]))',
    selectsServer('object.spec.?selector'),
  ].join(' && '),
)}`;

/** For policies about NetworkPolicies and other kinds. */
export const notOfSpirePolicies = `request.resource.group != "networking.k8s.io" || request.resource.resource != "networkpolicies" || ${notOf(
  [federationServiceName],
  selectsServer('object.spec.?podSelector.?matchLabels'),
)}`;

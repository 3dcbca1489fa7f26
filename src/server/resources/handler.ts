// Handles requests below /apis/hansa.dev/v1alpha1/: authorization, decoding, the operation, and the
// response. `src/api` defines the kinds and `src/core/store` stores the objects.

import type { Kind } from '../../api/kind.ts';
import { withLiveStatus } from '../../api/live-status.ts';
import { group, type Json, timestamp } from '../../api/object.ts';
import type { Registry } from '../../api/registry.ts';
import type { Authorizer } from '../../core/access/authorizer.ts';
import { forbidden } from '../../core/access/denial.ts';
import type { Clock, Random } from '../../core/clock/clock.ts';
import { HansaError, hasCode } from '../../core/errors/error.ts';
import type { Entry, Store } from '../../core/store/store.ts';
import { type Exchange, readBody, respond, respondInPieces } from '../http/exchange.ts';
import { type ChangeInput, checkName, patchTypeOf, patchWith, replaceWith } from './changes.ts';
import { mediaTypeOf } from '../../core/plane/media-types.ts';
import { decodeObject, objectMediaTypes, parseBody } from './decode.ts';
import { badRequest, methodNotAllowed, notFound, unsupportedMediaType } from './errors.ts';
import { ListBody, listHead } from './list-body.ts';
import { type Lister, listMetadata, type Page, selectionOf, tooLargeVersion } from './lister.ts';
import { type ObjectDraft, objectOf } from './object-of.ts';
import { deleteOptions } from './delete-options.ts';
import { listOptions, type WriteOptions, writeOptions } from './options.ts';
import { booleanParameter, parseResourceVersion } from './parameters.ts';
import {
  contentTypeOf,
  encode,
  type Form,
  includeObjectOf,
  listForm,
  maxLaidOutCharacters,
  negotiate,
  partialMetadata,
  type RowOptions,
  tableOf,
} from './present.ts';
import type { Watches } from './watches.ts';
import type { ResourceWriter, WriteContext, Written } from './writer.ts';

export interface HandlerParts {
  readonly registry: Registry;
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly authorizer: Pick<Authorizer, 'authorize'>;
  readonly writer: ResourceWriter;
  readonly lister: Lister;
  readonly watches: Watches;
  readonly maxRequestBytes: number;
}

/** A parsed request with its Kubernetes verb. */
export interface ResourceRequest {
  readonly kind: Kind;
  readonly name: string;
  readonly subresource: 'status' | undefined;
  readonly verb: string;
}

export class ResourceHandler {
  readonly #parts: HandlerParts;

  constructor(parts: HandlerParts) {
    this.#parts = parts;
  }

  /** `rest` is the path below /apis/hansa.dev/v1alpha1/. */
  parse(method: string, rest: string, query: URLSearchParams): ResourceRequest | undefined {
    const [plural = '', rawName, rawSubresource, ...more] = rest.split('/');
    const kind = this.#parts.registry.byPlural(plural);
    if (kind === undefined || more.length > 0 || rawName === '') return undefined;
    // The body of a POST names the object. A name in the path must not affect the authorization.
    const name = rawName === undefined || method === 'POST' ? '' : decodeName(rawName);
    const isUnknown =
      rawSubresource !== undefined && (rawSubresource !== 'status' || kind.status === undefined);
    const subresource = rawSubresource === undefined ? undefined : 'status';
    const verb = verbOf(method, name === '', query);
    return { kind, name, subresource, verb: isUnknown ? 'unknown' : verb };
  }

  async handle(exchange: Exchange, request: ResourceRequest): Promise<void> {
    const { kind, name, verb } = request;
    if (verb === '') throw methodNotAllowed(kind, '');
    // For an unknown subresource: a caller who may not read the object learns nothing.
    this.#authorize(exchange, verb === 'unknown' ? { ...request, verb: 'get' } : request);
    switch (verb) {
      case 'unknown':
        throw notFound(kind, name);
      case 'get':
        this.#get(exchange, kind, name);
        return;
      case 'list':
        await this.#list(exchange, kind);
        return;
      case 'watch':
        this.#watch(exchange, request);
        return;
      case 'create':
        await this.#create(exchange, request);
        return;
      case 'update':
        requireName(name);
        await this.#update(exchange, request);
        return;
      case 'patch':
        requireName(name);
        await this.#patch(exchange, request);
        return;
      case 'delete':
        await this.#delete(exchange, request);
        return;
      default:
        await this.#deleteCollection(exchange, request);
    }
  }

  #authorize(exchange: Exchange, request: ResourceRequest): void {
    const name = selectsByName.has(request.verb) ? fieldSelectorName(exchange.query) : request.name;
    const attributes = {
      verb: request.verb,
      plural: request.kind.plural,
      ...(name === '' ? {} : { name }),
      ...(request.subresource === undefined ? {} : { subresource: request.subresource }),
    };
    if (!this.#parts.authorizer.authorize(exchange.caller, attributes).allowed) {
      throw forbidden(exchange.caller, attributes);
    }
  }

  #get(exchange: Exchange, kind: Kind, name: string): void {
    const form = negotiate(exchange.request.headers.accept, 'object');
    const wanted = exchange.query.get('resourceVersion') ?? '';
    if (wanted !== '') this.#refuseFuture(parseResourceVersion(wanted));
    const entry = this.#parts.store.get(kind.plural, name);
    if (entry === undefined) throw notFound(kind, name);
    this.#respondEntry(exchange, kind, 200, form, entry);
  }

  #refuseFuture(wanted: number): void {
    const { revision } = this.#parts.store;
    if (wanted > revision) throw tooLargeVersion(wanted, revision);
  }

  #respondEntry(exchange: Exchange, kind: Kind, status: number, form: Form, entry: Entry): void {
    if (form.as === 'object' && form.encoding === 'json' && kind.liveStatus === undefined)
      respond(exchange, status, 'application/json', entry.value);
    else
      this.#respondObject(exchange, kind, status, form, {
        object: this.#live(kind, objectOf(entry)),
        entry,
        created: false,
      });
  }

  #live(kind: Kind, object: ObjectDraft): ObjectDraft {
    const facts = this.#parts.store.facts.get(kind.plural, object.metadata.name ?? '');
    return withLiveStatus(kind, object, facts);
  }

  #respondWritten(
    exchange: Exchange,
    kind: Kind,
    status: number,
    form: Form,
    written: Written,
  ): void {
    const { entry, object } = written;
    if (entry !== undefined) this.#respondEntry(exchange, kind, status, form, entry);
    // A dry run includes facts too, so that kubectl diff does not show them as removed.
    else {
      const live = this.#live(kind, object);
      this.#respondObject(exchange, kind, status, form, { ...written, object: live });
    }
  }

  #respondObject(
    exchange: Exchange,
    kind: Kind,
    status: number,
    form: Form,
    { object }: Written,
  ): void {
    const value =
      form.as === 'object'
        ? object
        : form.as === 'metadata'
          ? partialMetadata(object)
          : tableOf(kind, object, { ...this.#rowOptions(exchange), withColumns: true });
    respond(exchange, status, contentTypeOf(form), encode(form, value));
  }

  #rowOptions(exchange: Exchange): RowOptions {
    return { nowMs: this.#parts.clock.now(), include: includeObjectOf(exchange.query) };
  }

  #list(exchange: Exchange, kind: Kind): void | Promise<void> {
    const form = negotiate(exchange.request.headers.accept, 'list');
    const options = listOptions(exchange.query);
    const selection = selectionOf(kind, options);
    // The common case costs no promise.
    if (selection === undefined)
      return this.#respondPage(exchange, kind, form, this.#parts.lister.page(kind, options));
    return this.#parts.lister
      .select(kind, options, selection, exchange.payer)
      .then((page) => this.#respondPage(exchange, kind, form, page));
  }

  #respondPage(exchange: Exchange, kind: Kind, form: Form, page: Page): void | Promise<void> {
    if (form.as !== 'object' || form.encoding !== 'json') {
      return this.#respondItems(exchange, kind, form, page, page.entries, (entry) =>
        this.#live(kind, objectOf(entry)),
      );
    }
    const body = this.#parts.lister.body(kind, page);
    if (!Buffer.isBuffer(body)) return respondInPieces(exchange, 200, 'application/json', body);
    respond(exchange, 200, 'application/json', body);
  }

  #respondItems<T>(
    exchange: Exchange,
    kind: Kind,
    form: Form,
    page: Page,
    items: readonly T[],
    objectFor: (item: T) => ObjectDraft,
  ): void | Promise<void> {
    const list = listForm(form, kind, listMetadata(page), this.#rowOptions(exchange));
    let bytes = 0;
    for (const { value } of page.entries) bytes += value.length;
    // Only a short list is laid out as YAML. JSON is also YAML (YAML 1.2 section 1.3).
    if (form.encoding === 'yaml' && bytes <= maxLaidOutCharacters) {
      const value = { ...list.head, [list.field]: items.map((item) => list.item(objectFor(item))) };
      respond(exchange, 200, contentTypeOf(form), encode(form, value));
      return undefined;
    }
    const body = new ListBody(this.#parts.clock, listHead(list.head, list.field), items, (item) =>
      Buffer.from(JSON.stringify(list.item(objectFor(item)))),
    );
    return respondInPieces(exchange, 200, contentTypeOf(form), body);
  }

  #watch(exchange: Exchange, request: ResourceRequest): void {
    const { kind } = request;
    const form = negotiate(exchange.request.headers.accept, 'object');
    if (form.encoding === 'yaml') throw badRequest('a watch can only be streamed as JSON');
    const options = listOptions(exchange.query);
    const selection = selectionOf(kind, options);
    this.#parts.watches.serve(exchange, kind, options, selection, form, () => {
      exchange.identify();
      this.#authorize(exchange, request);
    });
  }

  /** Authorizes again after the body has arrived, because the caller may have lost the right. */
  async #body(exchange: Exchange, request: ResourceRequest): Promise<Buffer> {
    const body = await readBody(exchange, this.#parts.maxRequestBytes);
    this.#authorize(exchange, request);
    return body;
  }

  async #create(exchange: Exchange, request: ResourceRequest): Promise<void> {
    const { kind } = request;
    if (kind.singleton !== undefined) throw methodNotAllowed(kind, 'create');
    const form = negotiate(exchange.request.headers.accept, 'object');
    const { headers } = exchange.request;
    const body = await this.#body(exchange, request);
    const options = writeOptions(exchange.query, 'CreateOptions', headers['user-agent']);
    const object = decodeObject(kind, body, headers['content-type'], options, warningsTo(exchange));
    const written = await this.#parts.writer.create(
      kind,
      object,
      this.#context(exchange, 'create', options),
    );
    this.#respondWritten(exchange, kind, 201, form, written);
  }

  async #update(exchange: Exchange, request: ResourceRequest): Promise<void> {
    const { kind, name, subresource } = request;
    const form = negotiate(exchange.request.headers.accept, 'object');
    const { headers } = exchange.request;
    const body = await this.#body(exchange, request);
    const options = writeOptions(exchange.query, 'UpdateOptions', headers['user-agent']);
    const object = decodeObject(kind, body, headers['content-type'], options, warningsTo(exchange));
    checkName(object, name);
    const input = this.#changeInput(exchange, kind, name, subresource, options);
    const written = await this.#parts.writer.update(
      kind,
      name,
      subresource,
      this.#context(exchange, 'update', options),
      replaceWith(input, object),
    );
    this.#respondWritten(exchange, kind, 200, form, written);
  }

  async #patch(exchange: Exchange, request: ResourceRequest): Promise<void> {
    const { kind, name, subresource } = request;
    const { headers } = exchange.request;
    const type = patchTypeOf(headers['content-type']);
    const form = negotiate(headers.accept, 'object');
    const isApply = type === 'application/apply-patch+yaml';
    const body = await this.#body(exchange, request);
    const options = writeOptions(
      exchange.query,
      'PatchOptions',
      headers['user-agent'],
      isApply ? 'apply' : 'other',
    );
    const input = this.#changeInput(exchange, kind, name, subresource, options);
    const written = await this.#parts.writer.update(
      kind,
      name,
      subresource,
      this.#context(exchange, isApply ? 'apply' : 'patch', options),
      patchWith(input, type, body),
      isApply && kind.singleton === undefined
        ? () => this.#authorize(exchange, { kind, name, subresource, verb: 'create' })
        : undefined,
    );
    this.#respondWritten(exchange, kind, written.created ? 201 : 200, form, written);
  }

  async #delete(exchange: Exchange, request: ResourceRequest): Promise<void> {
    const { kind, name, subresource } = request;
    if (kind.singleton !== undefined || subresource !== undefined)
      throw methodNotAllowed(kind, 'delete');
    const form = negotiate(exchange.request.headers.accept, 'object');
    const options = deleteOptions(exchange.query, await this.#deleteBody(exchange, request));
    const { pending, uid } = await this.#parts.writer.delete(
      kind,
      name,
      options,
      this.#context(exchange, 'delete', plainOptions),
    );
    if (pending !== undefined) {
      this.#respondWritten(exchange, kind, 200, form, pending);
      return;
    }
    const status = {
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Success',
      details: { name, group, kind: kind.plural, uid },
    };
    respond(exchange, 200, contentTypeOf(form), encode(form, status));
  }

  /** One commit per object, sorted by name. Objects deleted before a failure stay deleted. O(n). */
  async #deleteCollection(exchange: Exchange, request: ResourceRequest): Promise<void> {
    const { kind } = request;
    if (kind.singleton !== undefined) throw methodNotAllowed(kind, 'deletecollection');
    const form = negotiate(exchange.request.headers.accept, 'list');
    const listing = listOptions(exchange.query);
    const options = deleteOptions(exchange.query, await this.#deleteBody(exchange, request));
    const selection = selectionOf(kind, listing);
    const { lister } = this.#parts;
    const page =
      selection === undefined
        ? lister.page(kind, listing)
        : await lister.select(kind, listing, selection, exchange.payer);
    const context = this.#context(exchange, 'delete', plainOptions);
    const deleted: ObjectDraft[] = [];
    for (const entry of page.entries) {
      try {
        const { last } = await this.#parts.writer.delete(kind, entry.name, options, context);
        deleted.push(last);
      } catch (error) {
        // Another caller has already deleted it.
        if (!(error instanceof HansaError && error.code === 'HANSA_NOT_FOUND')) throw error;
      }
    }
    const { revision } = page;
    const rest = { continueToken: '', remainingItemCount: undefined };
    const objects: Form = { as: 'object', encoding: form.encoding };
    const whole = { ...rest, revision, entries: page.entries };
    await this.#respondItems(exchange, kind, objects, whole, deleted, (object) => object);
  }

  async #deleteBody(exchange: Exchange, request: ResourceRequest): Promise<Json | undefined> {
    const body = await this.#body(exchange, request);
    if (body.length === 0) return undefined;
    const mediaType = mediaTypeOf(exchange.request.headers['content-type']);
    if (!objectMediaTypes.some((known) => known === mediaType))
      throw unsupportedMediaType(objectMediaTypes);
    try {
      return parseBody(body, mediaType).value;
    } catch (error) {
      throw hasCode(error, 'HANSA_BAD_REQUEST')
        ? badRequest(`couldn't get version/kind; json parse error: ${error.message}`)
        : error;
    }
  }

  #context(exchange: Exchange, verb: WriteContext['verb'], options: WriteOptions): WriteContext {
    return {
      caller: exchange.caller,
      verb,
      options,
      requestId: exchange.requestId,
      address: exchange.address,
      warn: warningsTo(exchange),
    };
  }

  #changeInput(
    exchange: Exchange,
    kind: Kind,
    name: string,
    subresource: 'status' | undefined,
    options: WriteOptions,
  ): ChangeInput {
    return {
      kind,
      name,
      subresource,
      options,
      timeIso: timestamp(this.#parts.clock.now()),
      warn: warningsTo(exchange),
    };
  }
}

const plainOptions: WriteOptions = {
  dryRun: false,
  manager: '',
  fieldValidation: 'Ignore',
  force: false,
};

/** Maximum number of warnings, because headers are limited. */
const maxWarnings = 32;
/** Maximum length of all warnings together, as in kube-apiserver. */
const maxWarningsLength = 4096;
const cutWarningLength = 256;

function warningsTo(exchange: Exchange): (text: string) => void {
  return (text) => {
    const { warnings } = exchange;
    if (warnings.length >= maxWarnings) return;
    const used = warnings.reduce((sum, warning) => sum + warning.length, 0);
    const shown = used + text.length > maxWarningsLength ? text.slice(0, cutWarningLength) : text;
    if (used + shown.length <= maxWarningsLength && !warnings.includes(shown)) warnings.push(shown);
  };
}

function requireName(name: string): void {
  if (name === '') throw badRequest('name must be provided');
}

/** '' if resources do not support the method. */
function verbOf(method: string, isCollection: boolean, query: URLSearchParams): string {
  switch (method) {
    case 'GET':
    case 'HEAD':
      if (!isCollection) return 'get';
      return booleanParameter(query, 'watch') === true ? 'watch' : 'list';
    case 'POST':
      return 'create';
    case 'PUT':
      return 'update';
    case 'PATCH':
      return 'patch';
    case 'DELETE':
      return isCollection ? 'deletecollection' : 'delete';
    default:
      return '';
  }
}

function decodeName(raw: string): string {
  if (!raw.includes('%')) return raw;
  try {
    return decodeURIComponent(raw);
  } catch {
    return raw;
  }
}

/** Other verbs ignore selectors, so a selector must not affect their authorization. */
const selectsByName: ReadonlySet<string> = new Set(['list', 'watch', 'deletecollection']);

/** A list or watch of one object by name is authorized for that object, as in Kubernetes. */
function fieldSelectorName(query: URLSearchParams): string {
  const selector = query.get('fieldSelector');
  return /^metadata\.name==?([a-z0-9._-]+)$/.exec(selector ?? '')?.[1] ?? '';
}

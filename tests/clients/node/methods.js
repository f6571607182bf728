// Every public method of the npm client `resend`, once. What there is is read from the client itself: its
// objects, without what its types call private. Started by ../run, which sets RESEND_BASE_URL, RESEND_API_KEY
// and METHODS, the file that takes what came of each: null, or what went wrong.

import { createHmac, randomUUID } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { Resend } from 'resend';
import { grant } from './grant.js';

const resend = new Resend(process.env.RESEND_API_KEY);

function methods() {
  const types = readFileSync(createRequire(import.meta.url).resolve('resend').replace(/index\.[cm]js$/, 'index.d.mts'), 'utf8');
  const isPrivate = new Set([...types.matchAll(/^ {2}private (\w+);/gm)].map(([, name]) => name));
  const found = [];
  const seen = new Set([resend]);
  const walk = (object, path) => {
    if (seen.has(object)) return;
    seen.add(object);
    const prototype = Object.getPrototypeOf(object);
    for (const name of Object.getOwnPropertyNames(prototype)) {
      if (name !== 'constructor' && !isPrivate.has(name)) found.push([...path, name].join('.'));
    }
    children(object, path);
  };
  const children = (object, path) => {
    for (const [name, value] of Object.entries(object)) {
      if (value !== null && typeof value === 'object' && ![Object, Headers].includes(value.constructor)) walk(value, [...path, name]);
    }
  };
  children(resend, []);
  return found.filter((name) => !/^(inboxes|domains\.claims)\./.test(name));
}

const outcome = Object.fromEntries(methods().map((name) => [name, 'nobody calls it here']));

// Calls a method; what it returns is its data, or nothing where it failed.
async function call(name, ...args) {
  if (!(name in outcome)) throw new Error(`the client has no method ${name}`);
  const path = name.split('.');
  const method = path.pop();
  const holder = path.reduce((object, step) => object[step], resend);
  let result;
  try {
    result = await holder[method](...args);
  } catch (thrown) {
    result = { error: { message: thrown.message } };
  }
  const error = result?.error;
  if (outcome[name] !== null) outcome[name] = error ? `${error.statusCode ?? ''} ${error.message}`.trim() : null;
  return result?.data ?? undefined;
}

// Waits for what takes a moment.
async function soon(look) {
  for (let tries = 0; tries < 40; tries++) {
    const found = await look();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
}

const somebody = () => `ada+${randomUUID()}@example.com`;
const nobody = randomUUID();
const mail = (to = 'delivered@resend.dev') => ({ from: 'Ada <ada@example.com>', to, subject: 'Hello', text: 'Hello.' });
const tomorrow = () => new Date(Date.now() + 86_400_000).toISOString();

async function people() {
  const { id: segmentId = nobody } = (await call('segments.create', { name: 'Everybody' })) ?? {};
  await call('segments.list');
  await call('segments.get', segmentId);
  await call('segments.update', segmentId, { name: 'All' });
  const email = somebody();
  const { id = nobody } = (await call('contacts.create', { email, firstName: 'Ada' })) ?? {};
  await call('contacts.list');
  await call('contacts.get', { email });
  await call('contacts.update', { id, lastName: 'Lovelace' });
  await call('contacts.segments.add', { contactId: id, segmentId });
  await call('contacts.segments.list', { contactId: id });
  const { id: topicId = nobody } = (await call('topics.create', { name: 'News', defaultSubscription: 'opt_in' })) ?? {};
  await call('topics.list');
  await call('topics.get', topicId);
  await call('topics.update', { id: topicId, name: 'Product news' });
  await call('contacts.topics.update', { id, topics: [{ id: topicId, subscription: 'opt_out' }] });
  await call('contacts.topics.list', { id });
  const property = await call('contactProperties.create', { key: `plan_${Date.now()}`, type: 'string', fallbackValue: 'free' });
  await call('contactProperties.list');
  await call('contactProperties.get', property?.id ?? nobody);
  await call('contactProperties.update', { id: property?.id ?? nobody, fallbackValue: 'paid' });
  await call('contactProperties.remove', property?.id ?? nobody);
  const file = new Blob([`email\n${somebody()}\n`], { type: 'text/csv' });
  const made = await call('contacts.imports.create', { file });
  await call('contacts.imports.list');
  await call('contacts.imports.get', made?.id ?? nobody);
  await broadcasts(segmentId);
  await call('contacts.segments.remove', { contactId: id, segmentId });
  await call('contacts.remove', { id });
  await call('topics.remove', topicId);
  await call('segments.remove', segmentId);
}

async function broadcasts(segmentId) {
  const draft = { segmentId, from: 'Ada <ada@example.com>', subject: 'News', html: '<p>News.</p>', name: 'News' };
  const { id = nobody } = (await call('broadcasts.create', draft)) ?? {};
  await call('broadcasts.list');
  await call('broadcasts.get', id);
  await call('broadcasts.update', id, { subject: 'Old news' });
  const copy = await call('broadcasts.duplicate', id);
  await call('broadcasts.remove', copy?.id ?? nobody);
  await call('broadcasts.send', id, { scheduledAt: tomorrow() });
  await call('broadcasts.recipients', id, { type: 'delivered' });
  await call('broadcasts.clickedLinks', id);
  await call('broadcasts.cancel', id);
}

async function emails() {
  const attachments = [{ filename: 'a.txt', content: Buffer.from('a').toString('base64') }];
  const { id: emailId = nobody } = (await call('emails.send', { ...mail(), attachments })) ?? {};
  await call('emails.create', mail());
  await call('emails.list');
  await call('emails.get', emailId);
  await call('emails.share', emailId);
  const listed = await call('emails.attachments.list', { emailId });
  await call('emails.attachments.get', { emailId, id: listed?.data?.[0]?.id ?? nobody });
  const later = await call('emails.send', { ...mail(), scheduledAt: tomorrow() });
  await call('emails.update', { id: later?.id ?? nobody, scheduledAt: new Date(Date.now() + 172_800_000).toISOString() });
  await call('emails.cancel', later?.id ?? nobody);
  await call('batch.send', [mail(), mail()]);
  await call('batch.create', [mail()]);
  await call('emails.metrics', { dimensions: ['period'], metrics: ['sent', 'delivered'] });
  await call('usage.get');
}

async function receiving() {
  const received = await call('emails.receiving.list');
  const id = received?.data?.[0]?.id ?? nobody;
  await call('emails.receiving.get', id);
  const listed = await call('emails.receiving.attachments.list', { emailId: id });
  await call('emails.receiving.attachments.get', { emailId: id, id: listed?.data?.[0]?.id ?? nobody });
  await call('emails.receiving.forward', { emailId: id, to: 'delivered@resend.dev', from: 'Ada <ada@example.com>' });
}

async function templates() {
  const made = { name: 'Welcome', html: '<p>Hello {{{NAME}}}.</p>', variables: [{ key: 'NAME', type: 'string', fallbackValue: 'you' }] };
  const { id = nobody } = (await call('templates.create', made)) ?? {};
  await call('templates.list');
  await call('templates.get', id);
  await call('templates.update', id, { subject: 'Welcome' });
  await call('templates.publish', id);
  const copy = await call('templates.duplicate', id);
  await call('templates.remove', copy?.id ?? nobody);
}

async function events() {
  const name = `user.created.${Date.now()}`;
  const { id: eventId = nobody } = (await call('events.create', { name, schema: { plan: 'string' } })) ?? {};
  await call('events.list');
  await call('events.get', name);
  await call('events.update', eventId, { schema: { plan: 'string', seats: 'number' } });
  const steps = [{ key: 't', type: 'trigger', config: { eventName: name } }];
  const { id = nobody } = (await call('automations.create', { name: 'Welcome', status: 'enabled', steps, connections: [] })) ?? {};
  await call('automations.list');
  await call('automations.get', id);
  await call('events.send', { event: name, email: somebody(), payload: { plan: 'pro' } });
  const run = await soon(async () => (await call('automations.runs.list', { automationId: id }))?.data?.[0]);
  await call('automations.runs.get', { automationId: id, runId: run?.id ?? nobody });
  await call('automations.update', id, { status: 'disabled' });
  const copy = await call('automations.duplicate', id);
  await call('automations.stop', id);
  await call('automations.remove', copy?.id ?? nobody);
  await call('events.remove', eventId);
}

async function domainsAndKeys() {
  const { id = nobody } = (await call('domains.create', { name: `mail-${Date.now()}.example.com` })) ?? {};
  await call('domains.list');
  await call('domains.get', id);
  await call('domains.update', { id, tls: 'enforced' });
  await call('domains.verify', id);
  await call('domains.remove', id);
  const key = await call('apiKeys.create', { name: 'Another' });
  await call('apiKeys.list');
  await call('apiKeys.update', key?.id ?? nobody, { name: 'The other' });
  await call('apiKeys.remove', key?.id ?? nobody);
  await grant();
  const grants = await call('oauthGrants.list');
  const mine = grants?.data?.find((one) => one.revoked_at === null);
  await call('oauthGrants.revoke', mine?.id ?? nobody);
  const logs = await call('logs.list');
  await call('logs.get', logs?.data?.[0]?.id ?? nobody);
}

async function suppressions() {
  const email = somebody();
  await call('suppressions.add', { email });
  await call('suppressions.list');
  await call('suppressions.get', email);
  await call('suppressions.remove', email);
  await call('suppressions.batch.add', { emails: [email] });
  await call('suppressions.batch.remove', { emails: [email] });
}

async function webhooks() {
  const sink = createServer((request, response) => request.resume().on('end', () => response.end('thanks')));
  await new Promise((resolve) => sink.listen(0, '127.0.0.1', resolve));
  const endpoint = `http://127.0.0.1:${sink.address().port}/hook`;
  const { id = nobody } = (await call('webhooks.create', { endpoint, events: ['contact.created'] })) ?? {};
  await call('webhooks.list');
  await call('webhooks.get', id);
  await call('webhooks.update', id, { events: ['contact.created', 'contact.deleted'] });
  await call('contacts.create', { email: somebody() });
  const event = await soon(async () => (await call('webhooks.events.list', { webhookId: id }))?.data?.[0]);
  const which = { webhookId: id, eventId: event?.id ?? nobody };
  await call('webhooks.events.get', which);
  await call('webhooks.events.attempts.list', which);
  await call('webhooks.events.replay', which);
  await call('webhooks.rotateSigningSecret', id);
  await call('webhooks.remove', id);
  const secret = Buffer.from('a secret of many characters').toString('base64');
  const now = Math.floor(Date.now() / 1000);
  const payload = '{"type":"contact.created"}';
  const signature = createHmac('sha256', Buffer.from(secret, 'base64')).update(`msg_1.${now}.${payload}`).digest('base64');
  const headers = { id: 'msg_1', timestamp: String(now), signature: `v1,${signature}` };
  await call('webhooks.verify', { payload, headers, webhookSecret: `whsec_${secret}` });
  sink.close();
}

for (const part of [people, emails, receiving, templates, events, domainsAndKeys, suppressions, webhooks]) await part();
writeFileSync(process.env.METHODS, JSON.stringify(outcome));

//! What assistants are told of the server, and the two methods that it has.

use axum::Router;
use http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, Implementation, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};

use super::call;
use super::tool::Tools;
use crate::memory::Lazily;
use crate::text::shown;

const INSTRUCTIONS: &str = "Posthorn sends mail: single mails, broadcasts to segments of contacts, and automations that \
    events start. Tools that change or send something say so in their hints. Look before you do: `validate_automation`, \
    `preview_template`, `preview_segment` and `read_segment` change nothing. Broadcasts are made as drafts and \
    automations disabled. Ask a person before anything is sent to people. Lists are pages of 20: go on with `after`.";

/// Clones share it.
#[derive(Clone)]
pub struct Assistants {
    api: Router,
    tools: Lazily<Tools>,
}

impl Assistants {
    pub fn new(api: Router, tools: Lazily<Tools>) -> Assistants {
        Assistants { api, tools }
    }
}

impl ServerHandler for Assistants {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        let us = Implementation::new("posthorn", env!("CARGO_PKG_VERSION")).with_title("Posthorn");
        ServerConfig::new(capabilities).with_server_info(us).with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.get().values().map(|tool| tool.told.clone()).collect()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.tools.get().get(name).map(|tool| tool.told.clone())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tools = self.tools.get();
        let Some(tool) = tools.get(request.name.as_ref()) else {
            let message = format!("There is no tool `{}`. `tools/list` names those there are.", shown(&request.name));
            return Err(ErrorData::invalid_params(message, None));
        };
        let Some(caller) = context.extensions.get::<Parts>() else {
            return Err(ErrorData::internal_error("The call came without its request.", None));
        };
        Ok(call::call(&self.api, tool, caller, request.arguments.unwrap_or_default()).await.into())
    }
}
